// Text that a user or a file supplied, on its way into something that is read by a program: a terminal, a shell,
// Python, YAML, XML. Whoever writes such a thing quotes the text for where it goes, and with these functions:
//
//     printable("a\x1b[2Jb\n")           a\u001b[2Jb     for a terminal; lines stay lines
//     one_line("meta\ntouch x")          meta\ntouch x   for a comment, a cell, a message
//     shell_quoted("a'b; touch x")       'a'\''b; touch x'
//     double_quoted("a\"b\n")            "a\"b\n"        for JSON, YAML, TOML and Python alike
//     xml_escaped("<script>&\"")         &lt;script&gt;&amp;&quot;
//
// What no terminal may get is shown as an escape: control characters, marks that turn the direction of writing, line
// separators, and U+FFFD for bytes that are no UTF-8. `\u001b` is also what JSON, YAML and Python call that character,
// so that printable() of one of these texts changes nothing that it says.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace twinpod {

enum class Colours { none, kept };  // kept: ESC [ 30;48;5;12 m, which only changes the colour

// Line breaks and tabs stay as they are.
std::string printable(std::string_view text, Colours colours = Colours::none);

std::string one_line(std::string_view text);

// At most so many bytes of one_line(), with "..." behind it when that is not all.
std::string shortened(std::string_view text, std::size_t most_bytes);

// Whether one_line() leaves it as it is: what a name must be.
bool is_one_line(std::string_view text);

// A word of bash or another POSIX shell: as it stands where nothing in it means anything, else in quotes. Every byte
// stays what it is; those that no terminal may get need bash ($'\x1b').
std::string shell_quoted(std::string_view text);

// With its quotes. In Python source, JSON, YAML (also between brackets) and TOML it means `text`, without the bytes
// that are no UTF-8.
std::string double_quoted(std::string_view text);

// A name for YAML: as it stands where YAML takes it for text, else double_quoted().
std::string yaml_word(std::string_view text);

// For the content of an element and for attributes in either quotes; XML has no control characters, so they are shown
// as printable() does.
std::string xml_escaped(std::string_view text);

}  // namespace twinpod
