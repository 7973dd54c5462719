# SPDX-License-Identifier: Apache-2.0
"""What values look like: goes on where python_channel.py ends."""
RICH_ROWS = 10000  # of a table that is also told as data
MIMES = (("html", "_repr_html_", "text/html"), ("markdown", "_repr_markdown_", "text/markdown"),
         ("svg", "_repr_svg_", "image/svg+xml"), ("png", "_repr_png_", "image/png"),
         ("jpeg", "_repr_jpeg_", "image/jpeg"), ("pdf", "_repr_pdf_", "application/pdf"),
         ("latex", "_repr_latex_", "text/latex"), ("json", "_repr_json_", "application/json"),
         ("javascript", "_repr_javascript_", "application/javascript"))


def text_of(value):
    """Exactly a str, of characters that there are."""
    return str.encode(value, "utf-8", "backslashreplace").decode("utf-8")


def cut(text):
    """As much as may still be sent, and how much more there was."""
    if len(text) <= state.results:
        state.results -= len(text)
        return text
    room, state.results = state.results, 0
    state.cut += 1
    return text[:room] + "\n[... %d characters left out ...]" % (len(text) - room)


def encode_bytes(value):
    import binascii
    if isinstance(value, str):
        return text_of(value)
    return binascii.b2a_base64(bytes(value), newline=False).decode()


def to_json(value):
    import json
    if isinstance(value, (str, bytes)):
        value = json.loads(value)
    return text_of(json.dumps(value, allow_nan=False, default=str))


def method_of(value, name):
    """One that it really has: some objects answer to every name."""
    if isinstance(value, type):
        return None
    try:
        if getattr(value, "_threadbox_has_no_such_method_", None) is not None:
            return None
        found = getattr(value, name, None)
    except Exception:
        return None
    return found if callable(found) else None


def bundle_of(value):
    """What it says of itself: by our names."""
    bundle = {}
    whole = method_of(value, "_repr_mimebundle_")
    told = whole(include=None, exclude=None) if whole else None
    told = told[0] if isinstance(told, tuple) else told
    told = told if isinstance(told, dict) else {}
    for name, method, mime in MIMES:
        data = told.get(mime)
        if data is None:
            own = method_of(value, method)
            try:
                data = own() if own else None
            except NotImplementedError:
                data = None
            if isinstance(data, tuple):
                data = data[0]
        if data is not None:
            bundle[name] = data
    bundle["text"] = told["text/plain"] if "text/plain" in told else plain(value)
    extra = {mime: data for mime, data in told.items()
             if mime != "text/plain" and mime not in [row[2] for row in MIMES]}
    if extra:
        bundle["extra"] = extra
    picture = picture_of(value)
    if picture is not None:
        bundle["png"] = picture
    table = table_of(value)
    if table is not None:
        bundle["data"] = table
    return bundle


def plain(value):
    text = text_of(repr(value))
    # As other code interpreters have it: a string stands there without its quotes.
    if isinstance(value, str) and len(text) > 1 and text[0] in "'\"" and text[-1] == text[0]:
        return text[1:-1]
    return text


def picture_of(value):
    """Of a figure of matplotlib that is not shown at the end of the call anyway."""
    if type(value).__name__ != "Figure" or not str(type(value).__module__).startswith("matplotlib"):
        return None
    plot = sys.modules.get("matplotlib.pyplot")
    if plot is not None and getattr(value, "number", None) in plot.get_fignums():
        return None
    png = io.BytesIO()
    value.savefig(png, format="png", bbox_inches="tight")
    return png.getvalue()


def table_of(value):
    kind = type(value)
    if kind.__name__ != "DataFrame" or not str(kind.__module__).startswith("pandas"):
        return None
    try:
        return value.to_dict(orient="list") if len(value) <= RICH_ROWS else None
    except Exception:
        return None


def render(bundle, main):
    parts = ['"is_main_result":' + ("true" if main else "false")]
    for name, data in bundle.items():
        if name in ("json", "data", "extra"):
            text = to_json(data)
            if len(text) > state.results:  # half of it would be none
                state.cut += 1
                continue
            state.results -= len(text)
        elif name in ("png", "jpeg", "pdf"):
            text = encode_bytes(data)
            if len(text) > state.results:
                state.cut += 1
                continue
            state.results -= len(text)
            text = quote(text)
        else:
            text = quote(cut(text_of(data if isinstance(data, str) else str(data))))
        parts.append(quote(name) + ":" + text)
    return ("{" + ",".join(parts) + "}").encode("utf-8")


def message(kind, data, frames):
    """A frame, or several for much of it."""
    for at in range(0, max(len(data), 1), PIECE):
        last = at + PIECE >= len(data)
        frames.append(frame(kind if last else b"p", data[at:at + PIECE]))


def show(value, main=False):
    own = method_of(value, "_ipython_display_")
    if own:
        own()
        return
    show_bundle(bundle_of(value), main)


def show_bundle(bundle, main=False):
    data = render(bundle, main)
    if getpid() != state.pid:
        return
    flush()
    with Held():
        if not state.active:
            return
        frames = []
        drain(frames)
        message(b"r", data, frames)
        send(b"".join(frames))


def display(*values, **options):
    """Shows values beside the text that was printed, in the richest way that each knows."""
    for value in values:
        if options.get("raw") and isinstance(value, dict):
            names = {mime: name for name, _, mime in MIMES}
            names["text/plain"] = "text"
            show_bundle({names.get(mime, mime): data for mime, data in value.items()})
        else:
            show(value)


def show_figures(*_, **__):
    """Those of matplotlib that are open, which then are closed."""
    plot = sys.modules.get("matplotlib.pyplot")
    if plot is None or not plot.get_fignums():
        return
    for number in plot.get_fignums():
        figure = plot.figure(number)
        png = io.BytesIO()
        figure.savefig(png, format="png", bbox_inches="tight")
        show_bundle({"text": plain(figure), "png": png.getvalue()})
    plot.close("all")


class PlotFinder:
    """Sees pyplot imported, and has its show() show."""
    name = "matplotlib.pyplot"

    @classmethod
    def find_spec(cls, name, path=None, target=None):
        if name != cls.name or cls not in sys.meta_path:
            return None
        sys.meta_path.remove(cls)
        import importlib.util
        found = importlib.util.find_spec(name)
        if found is None or found.loader is None:
            return found
        run = found.loader.exec_module

        def exec_module(module):
            run(module)
            module.show = show_figures
        found.loader.exec_module = exec_module
        return found
