// SPDX-License-Identifier: Apache-2.0
// The files of web/, which this binary carries.
#pragma once

#include <string_view>

extern "C" {
extern const char tb_web_openapi_begin[], tb_web_openapi_end[];
extern const char tb_web_docs_begin[], tb_web_docs_end[];
extern const char tb_web_redoc_begin[], tb_web_redoc_end[];
extern const char tb_web_shared_css_begin[], tb_web_shared_css_end[];
extern const char tb_web_shared_js_begin[], tb_web_shared_js_end[];
}

namespace tb::api::web {

inline std::string_view between(const char* begin, const char* end) {
  return {begin, static_cast<std::size_t>(end - begin)};
}

inline std::string_view openapi() { return between(tb_web_openapi_begin, tb_web_openapi_end); }
inline std::string_view docs() { return between(tb_web_docs_begin, tb_web_docs_end); }
inline std::string_view redoc() { return between(tb_web_redoc_begin, tb_web_redoc_end); }
inline std::string_view shared_css() {
  return between(tb_web_shared_css_begin, tb_web_shared_css_end);
}
inline std::string_view shared_js() {
  return between(tb_web_shared_js_begin, tb_web_shared_js_end);
}

}  // namespace tb::api::web
