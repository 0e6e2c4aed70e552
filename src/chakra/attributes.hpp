// Attributes of Chakra messages by name. For the files of this folder.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "et_def.pb.h"

namespace twinpod::chakra {

// nullptr: there is none of that name.
const ChakraProtoMsg::AttributeProto* find_attribute(
    const google::protobuf::RepeatedPtrField<ChakraProtoMsg::AttributeProto>& attributes, std::string_view name);

// Converters write the same number as one type or another. NaN: it is no number.
double number_of(const ChakraProtoMsg::AttributeProto& attribute);

void add_number(ChakraProtoMsg::Node& node, std::string_view name, double value);  // as a whole number
void add_text(ChakraProtoMsg::Node& node, std::string_view name, std::string value);
void add_flag(ChakraProtoMsg::Node& node, std::string_view name, bool value);

}  // namespace twinpod::chakra
