"""The built site in a browser: it loads whole, from one machine, and can be read by everybody."""

import re
from html.parser import HTMLParser
from urllib.parse import unquote, urldefrag, urljoin

import pytest

pytestmark = pytest.mark.nightly

#: Pages of every kind, which are looked at closely.
KINDS = [
    "index.html", "start/index.html", "book/index.html", "book/yarn.html", "book/t5bias.html",
    "codes/layout.html", "models/gemma-3-4b.html", "models/index.html", "surfaces/apply.html",
    "api/posenc_ref.conformance.html", "judging.html", "schedules.html", "tutorials/index.html",
    "generated/transformers-sweep-other.html", "conformance/libraries/index.html",
    "source/posenc_ref/rope.py.html",
]  # fmt: skip
#: The most bytes of one page, and of all that a first visit loads.
PAGE, VISIT = 1_000_000, 2_500_000
#: A page was left before the icon was there.
LEFT = ("net::ERR_ABORTED",)


class Links(HTMLParser):
    """The links and the anchors of a page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        """Take the addresses of any tag."""
        found = dict(attributes)
        self.anchors |= {found[key] for key in ("id", "name") if found.get(key)}
        self.links += [found[key] for key in ("href", "src", "data") if found.get(key)]


def pages(built):
    return sorted(path.relative_to(built).as_posix() for path in built.rglob("*.html"))


@pytest.fixture(scope="module")
def read(built):
    return {
        page: Links((built / page).read_text(encoding="utf-8"))
        for page in pages(built)
        if not page.startswith("_static/")
    }


def test_links_lead_to_a_file_and_its_anchor(built, read):
    broken = []
    for page, links in read.items():
        for link in links.links:
            if re.match(r"[a-z]+:", link):
                continue
            place, anchor = urldefrag(urljoin(f"/{page}", link))
            target = unquote(place).lstrip("/").partition("?")[0]
            if not (built / target).is_file() or (
                anchor and target in read and unquote(anchor) not in read[target].anchors
            ):
                broken.append((page, link))
    assert broken == []


def test_nothing_is_loaded_from_elsewhere(built):
    tags = "script|img|link|source|iframe|object"
    loads = re.compile(rf"""<(?:{tags})\b[^>]*(?:src|href|data)=["']?(https?:)?//""")
    found = [p for p in pages(built) if loads.search((built / p).read_text(encoding="utf-8"))]
    assert found == []


def test_pages_are_small(built):
    assert [p for p in pages(built) if (built / p).stat().st_size > PAGE] == []


def test_every_page_loads_and_fits_a_phone(built, chromium, address):
    wrong = []
    with chromium.new_context(viewport={"width": 375, "height": 800}) as context:
        page = context.new_page()
        page.on("console", lambda m: m.type in ("error", "warning") and wrong.append((at, m.text)))
        page.on("pageerror", lambda error: wrong.append((at, str(error))))
        page.on("requestfailed", lambda r: r.failure not in LEFT and wrong.append((at, r.url)))
        page.on("response", lambda r: r.status >= 400 and wrong.append((at, r.url)))
        page.on(
            "request", lambda r: r.url.startswith((address, "data:")) or wrong.append((at, r.url))
        )
        for at in pages(built):
            if at.startswith("_static/"):
                continue
            page.goto(f"{address}/{at}")
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > 375:
                wrong.append((at, f"{wide} pixels wide"))
    assert wrong == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [375, 1300])
def test_no_serious_fault_of_accessibility(chromium, address, scheme, width):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe").Axe()
    faults = []
    size = {"width": width, "height": 900}
    with chromium.new_context(viewport=size, color_scheme=scheme) as context:
        page = context.new_page()
        for at in KINDS:
            page.goto(f"{address}/{at}")
            for fault in axe.run(page).response["violations"]:
                if fault["impact"] in ("serious", "critical"):
                    nodes = [node["html"][:200] for node in fault["nodes"][:3]]
                    faults.append((at, fault["id"], nodes))
    assert faults == []


def test_a_first_visit_loads_little(chromium, address):
    heavy = []
    for at in KINDS:
        with chromium.new_context() as context:
            page, sizes = context.new_page(), []
            page.on("response", lambda r, sizes=sizes: sizes.append(len(r.body())))
            page.goto(f"{address}/{at}", wait_until="networkidle")
            if sum(sizes) > VISIT:
                heavy.append((at, sum(sizes)))
    assert heavy == []


def test_the_scheme_of_the_system_is_followed(chromium, address):
    colours = []
    for scheme in ("light", "dark"):
        with chromium.new_context(color_scheme=scheme) as context:
            page = context.new_page()
            page.goto(f"{address}/book/rope.html")
            colours.append(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    light, dark = (sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in colours)
    assert light > 3 * 200
    assert dark < 3 * 60


def test_formulas_are_drawn_in_their_font(chromium, address):
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}/book/yarn.html")
        page.evaluate("document.fonts.ready")
        assert page.evaluate("document.fonts.check('16px Formulas')")
        box = page.locator("math mfrac").first.bounding_box()
        assert box["height"] > 25  # a fraction has two lines


def test_the_search_finds_a_page(chromium, address):
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}/search.html?q=yarn")
        page.wait_for_selector("#search-results li a")
        links = page.locator("#search-results li a").evaluate_all("all => all.map(a => a.href)")
        assert any("book/yarn.html" in link for link in links)


def test_the_list_of_models_is_filtered_and_its_sidebar_is_short(chromium, address):
    with chromium.new_context() as context:
        page = context.new_page()
        page.goto(f"{address}/models/index.html")
        rows = "section section:has(table) tbody tr"
        shown = f"[...document.querySelectorAll('{rows}')].filter(r => r.checkVisibility()).length"
        every = page.evaluate(shown)
        assert every > 200
        assert page.inner_text("#model-filter output") == f"{every} of {every} models"
        page.fill("#model-words", "DeepSeek yarn")
        left = page.evaluate(shown)
        assert 0 < left < 12
        assert page.inner_text("#model-filter output") == f"{left} of {every} models"
        assert page.locator("#deepseek").is_visible()
        assert not page.locator("#llama").is_visible()
        assert page.locator(".bd-sidebar-primary a").count() < 60
    with chromium.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{address}/models/index.html")
        assert not page.locator("#model-filter").is_visible()
        assert page.locator("#deepseek tbody tr").count() >= left
