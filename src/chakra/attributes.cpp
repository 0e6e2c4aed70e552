#include "chakra/attributes.hpp"

#include <cmath>
#include <limits>

namespace twinpod::chakra {

using ChakraProtoMsg::AttributeProto;

const AttributeProto* find_attribute(const google::protobuf::RepeatedPtrField<AttributeProto>& attributes,
                                     std::string_view name) {
  for (const AttributeProto& one : attributes) {
    if (one.name() == name) return &one;
  }
  return nullptr;
}

double number_of(const AttributeProto& attribute) {
  switch (attribute.value_case()) {
    case AttributeProto::kDoubleVal:
      return attribute.double_val();
    case AttributeProto::kFloatVal:
      return static_cast<double>(attribute.float_val());
    case AttributeProto::kInt32Val:
      return attribute.int32_val();
    case AttributeProto::kInt64Val:
      return static_cast<double>(attribute.int64_val());
    case AttributeProto::kUint32Val:
      return attribute.uint32_val();
    case AttributeProto::kUint64Val:
      return static_cast<double>(attribute.uint64_val());
    case AttributeProto::kSint32Val:
      return attribute.sint32_val();
    case AttributeProto::kSint64Val:
      return static_cast<double>(attribute.sint64_val());
    case AttributeProto::kFixed32Val:
      return attribute.fixed32_val();
    case AttributeProto::kFixed64Val:
      return static_cast<double>(attribute.fixed64_val());
    case AttributeProto::kSfixed32Val:
      return attribute.sfixed32_val();
    case AttributeProto::kSfixed64Val:
      return static_cast<double>(attribute.sfixed64_val());
    default:
      return std::numeric_limits<double>::quiet_NaN();
  }
}

namespace {

AttributeProto& add(ChakraProtoMsg::Node& node, std::string_view name) {
  AttributeProto& attribute = *node.add_attr();
  attribute.set_name(std::string(name));
  return attribute;
}

}  // namespace

void add_number(ChakraProtoMsg::Node& node, std::string_view name, double value) {
  add(node, name).set_int64_val(std::llround(value));
}

void add_text(ChakraProtoMsg::Node& node, std::string_view name, std::string value) {
  add(node, name).set_string_val(std::move(value));
}

void add_flag(ChakraProtoMsg::Node& node, std::string_view name, bool value) { add(node, name).set_bool_val(value); }

}  // namespace twinpod::chakra
