// What happens when the process is told to end: SIGINT (Ctrl-C), SIGTERM and SIGHUP (the terminal is gone), for all
// commands in one place. No other file installs handlers, but for the moment that survives() takes.
//
//     take_signals();                            // main, first of all
//     const pid_t child = fork_child();          // instead of fork()
//     wish_for({SIGINT, SIGTERM, SIGHUP});       // from here on the first one is a wish
//     wished()                                   // SIGTERM; 0: nobody asked
//
// A process ends its children, removes its temporary folders (temporary.hpp) and dies by the signal: its shell says
// 128 + the signal's number. Once it has wishes the first of them is noted instead, and whoever works may end in order;
// a second one, later than half a second, ends it at once. (Programs such as `timeout` send theirs twice.)
//
// Children die with their parent, however it ends. What a terminal sends to all processes is for the parent to act on.
// A wish is seen by all of them, and a SIGTERM to one of them is one to all.
//
// Handlers run on a stack of their own, in each thread that called own_signal_stack(): while oneDNN 2.6 multiplies,
// the stack pointer of its thread is in the middle of the heap, where the frame of a handler destroys what is there.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <initializer_list>
#include <span>

namespace twinpod {

void take_signals();

// Of this process and its children, until it ends.
void wish_for(std::initializer_list<int> signals);
const std::atomic<int>& wished();
void forget_wish();  // SIGINT and so on end the process again

// As fork(); also blocks in the child what only the parent acts on. For what is not ours, `executes`: all signals are
// as they were when the program started.
enum class ChildKind { works, executes };
pid_t fork_child(ChildKind kind = ChildKind::works);
void forget_child(pid_t child);  // it has been waited for

// As a program ends whose reader is gone, which is without a word. Whoever writes finds EPIPE.
[[noreturn]] void end_without_reader();

// Of this thread, unless it has one. Handlers that others have installed, such as those of profilers and of MPI, are
// told to use it, too. Cheap when it was called before.
void own_signal_stack();

// Whether `work` came to its end: false if it raised one of the signals. REQUIRES: one thread at a time.
bool survives(std::span<const int> signals, const std::function<void()>& work);

// For temporary.cpp: folders that are to be removed when the process is told to end, up to some.
void remove_at_end(const char* folder);
void keep_at_end(const char* folder);

}  // namespace twinpod
