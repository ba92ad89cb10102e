#include "trace/export/canvas.hpp"

#include "base/file.hpp"
#include "base/library.hpp"

namespace tracesmith::trace {
namespace {

// What we use of cairo.h, as it has been since 1.2. It is loaded on use: only plots need it.
struct CairoSurface;
struct CairoContext;
struct TextExtents {
  double x_bearing, y_bearing, width, height, x_advance, y_advance;
};
constexpr int kArgb32 = 0, kNormal = 0;
constexpr double kPngScale = 2;  // pixels a point

struct Cairo {
  CairoSurface* (*cairo_svg_surface_create)(const char*, double, double);
  CairoSurface* (*cairo_pdf_surface_create)(const char*, double, double);
  CairoSurface* (*cairo_image_surface_create)(int, int, int);
  int (*cairo_surface_write_to_png)(CairoSurface*, const char*);
  void (*cairo_surface_finish)(CairoSurface*);
  int (*cairo_surface_status)(CairoSurface*);
  void (*cairo_surface_destroy)(CairoSurface*);
  CairoContext* (*cairo_create)(CairoSurface*);
  void (*cairo_destroy)(CairoContext*);
  int (*cairo_status)(CairoContext*);
  const char* (*cairo_status_to_string)(int);
  void (*cairo_scale)(CairoContext*, double, double);
  void (*cairo_set_source_rgb)(CairoContext*, double, double, double);
  void (*cairo_set_line_width)(CairoContext*, double);
  void (*cairo_move_to)(CairoContext*, double, double);
  void (*cairo_line_to)(CairoContext*, double, double);
  void (*cairo_stroke)(CairoContext*);
  void (*cairo_rectangle)(CairoContext*, double, double, double, double);
  void (*cairo_fill)(CairoContext*);
  void (*cairo_select_font_face)(CairoContext*, const char*, int, int);
  void (*cairo_set_font_size)(CairoContext*, double);
  void (*cairo_show_text)(CairoContext*, const char*);
  void (*cairo_text_extents)(CairoContext*, const char*, TextExtents*);
};

Result<const Cairo*> loadCairo() {
  static Cairo cairo;
  static const Status status = [] {
    Result<SharedLibrary> library = SharedLibrary::load({"libcairo.so.2"});
    if (!library) return Status::unsupported("plots need libcairo.so.2: install libcairo2");
    bool all = true;
    auto load = [&](auto& function, const char* name) { all &= library->find(function, name); };
#define LOAD(name) load(cairo.name, #name)
    LOAD(cairo_svg_surface_create);
    LOAD(cairo_pdf_surface_create);
    LOAD(cairo_image_surface_create);
    LOAD(cairo_surface_write_to_png);
    LOAD(cairo_surface_finish);
    LOAD(cairo_surface_status);
    LOAD(cairo_surface_destroy);
    LOAD(cairo_create);
    LOAD(cairo_destroy);
    LOAD(cairo_status);
    LOAD(cairo_status_to_string);
    LOAD(cairo_scale);
    LOAD(cairo_set_source_rgb);
    LOAD(cairo_set_line_width);
    LOAD(cairo_move_to);
    LOAD(cairo_line_to);
    LOAD(cairo_stroke);
    LOAD(cairo_rectangle);
    LOAD(cairo_fill);
    LOAD(cairo_select_font_face);
    LOAD(cairo_set_font_size);
    LOAD(cairo_show_text);
    LOAD(cairo_text_extents);
#undef LOAD
    return all ? Status() : Status::unsupported("libcairo.so.2 is incomplete: install libcairo2");
  }();
  if (!status) return status;
  return &cairo;
}

}  // namespace

struct Canvas::Impl {
  const Cairo* cairo;
  CairoSurface* surface = nullptr;
  CairoContext* context = nullptr;
  Format format;
  std::string path;
  OutputFile file;  // drawn into it

  void color(Color c) const {
    cairo->cairo_set_source_rgb(context, (c >> 16 & 255) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0);
  }
};

bool Canvas::formatOf(const std::string& path, Format& format) {
  for (const auto& [ending, f] : {std::pair{".svg", Format::svg}, {".pdf", Format::pdf}, {".png", Format::png}})
    if (path.ends_with(ending)) return format = f, true;
  return false;
}

Result<std::unique_ptr<Canvas>> Canvas::create(const std::string& path, Format format, double width, double height) {
  Result<const Cairo*> cairo = loadCairo();
  if (!cairo) return cairo.status();
  std::unique_ptr<Canvas> canvas(new Canvas());
  canvas->impl_ = std::make_unique<Impl>();
  Impl& i = *canvas->impl_;
  i.cairo = *cairo;
  i.format = format;
  i.path = path;
  Result<OutputFile> file = OutputFile::create(path);
  if (!file) return file.status();
  i.file = std::move(*file);
  const char* work = i.file.workPath().empty() ? i.path.c_str() : i.file.workPath().c_str();
  i.surface = format == Format::svg ? i.cairo->cairo_svg_surface_create(work, width, height)
              : format == Format::pdf
                  ? i.cairo->cairo_pdf_surface_create(work, width, height)
                  : i.cairo->cairo_image_surface_create(kArgb32, static_cast<int>(width * kPngScale),
                                                        static_cast<int>(height * kPngScale));
  i.context = i.cairo->cairo_create(i.surface);
  if (const int status = i.cairo->cairo_status(i.context); status != 0)
    return Status::io("cannot draw " + path + ": " + i.cairo->cairo_status_to_string(status));
  if (format == Format::png) i.cairo->cairo_scale(i.context, kPngScale, kPngScale);
  i.cairo->cairo_select_font_face(i.context, "sans-serif", kNormal, kNormal);
  canvas->box(0, 0, width, height, 0xffffff);
  return canvas;
}

Canvas::~Canvas() {
  if (!impl_ || !impl_->surface) return;
  impl_->cairo->cairo_destroy(impl_->context);
  impl_->cairo->cairo_surface_destroy(impl_->surface);
}

void Canvas::text(double x, double y, double size, const std::string& text, Align align) {
  const Cairo& c = *impl_->cairo;
  impl_->color(0);
  c.cairo_set_font_size(impl_->context, size);
  TextExtents e{};
  c.cairo_text_extents(impl_->context, text.c_str(), &e);
  c.cairo_move_to(impl_->context, align == Align::left ? x : align == Align::middle ? x - e.width / 2 : x - e.width, y);
  c.cairo_show_text(impl_->context, text.c_str());
}

void Canvas::line(const std::vector<std::pair<double, double>>& points, double width, Color color) {
  if (points.empty()) return;
  const Cairo& c = *impl_->cairo;
  impl_->color(color);
  c.cairo_set_line_width(impl_->context, width);
  c.cairo_move_to(impl_->context, points[0].first, points[0].second);
  if (points.size() == 1) c.cairo_line_to(impl_->context, points[0].first + width, points[0].second);  // a dot
  for (const auto& [x, y] : points) c.cairo_line_to(impl_->context, x, y);
  c.cairo_stroke(impl_->context);
}

void Canvas::box(double x, double y, double width, double height, Color color) {
  impl_->color(color);
  impl_->cairo->cairo_rectangle(impl_->context, x, y, width, height);
  impl_->cairo->cairo_fill(impl_->context);
}

Status Canvas::finish() {
  const Cairo& c = *impl_->cairo;
  int status = c.cairo_status(impl_->context);
  if (status == 0 && impl_->format == Format::png)
    status = c.cairo_surface_write_to_png(
        impl_->surface, impl_->file.workPath().empty() ? impl_->path.c_str() : impl_->file.workPath().c_str());
  c.cairo_surface_finish(impl_->surface);
  if (status == 0) status = c.cairo_surface_status(impl_->surface);
  if (status != 0) return Status::io("cannot write " + impl_->path + ": " + c.cairo_status_to_string(status));
  return impl_->file.commit();
}

}  // namespace tracesmith::trace
