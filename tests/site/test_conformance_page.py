"""The page of libraries in a browser: with and without JavaScript, in the dark, on a phone."""

import io

import pytest
from PIL import Image

from tests import survey_rows
from tests.tool import tool

pytestmark = pytest.mark.nightly
made = tool("conformance_page")
#: A desktop, a phone, and the phone in the dark.
SCREENS = {"desktop": (1280, "light"), "phone": (375, "light"), "dark": (375, "dark")}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Return the page of the committed report."""
    made.write(folder := tmp_path_factory.mktemp("page"))
    return folder


@pytest.fixture(scope="module")
def made_up(tmp_path_factory):
    """Return the page of a made-up report with names that are HTML."""
    folder = tmp_path_factory.mktemp("made-up")
    report = made.read_ndjson(survey_rows.write(folder / "report.ndjson"))
    found = made.survey_of([report], survey_rows.known_claims(), survey_rows.SCRIPTS.__getitem__)
    (folder / "index.html").write_text(made.page(found), encoding="utf-8")
    return folder


@pytest.fixture
def opened(chromium):
    """Return a function that opens a page, with a list of what the console says."""
    contexts = []

    def opened(folder, goal="", screen="desktop", **options):
        width, scheme = SCREENS[screen]
        size = {"width": width, "height": 800}
        context = chromium.new_context(viewport=size, color_scheme=scheme, **options)
        contexts.append(context)
        page = context.new_page()
        page.said = []
        page.on("console", lambda message: page.said.append(message.text))
        page.on("pageerror", lambda error: page.said.append(str(error)))
        page.on("requestfailed", lambda request: page.said.append(request.url))
        page.goto((folder / "index.html").as_uri() + goal)
        return page

    yield opened
    for context in contexts:
        context.close()


def shown(page):
    """Return the links of the rows that are shown."""
    return page.evaluate(
        "[...document.querySelectorAll('details.row')].filter(r => r.checkVisibility())"
        ".map(r => r.querySelector('.body').id)"
    )


@pytest.mark.parametrize("screen", SCREENS)
def test_it_loads_without_errors_and_fits(opened, folder, screen):
    page = opened(folder, screen=screen)
    # Every row open: what it holds must fit as well.
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert page.said == []
    assert page.evaluate("document.documentElement.scrollWidth") == SCREENS[screen][0]


@pytest.mark.parametrize("screen", SCREENS)
@pytest.mark.parametrize("name", ["folder", "made_up"])
def test_axe_finds_no_fault(opened, request, name, screen):
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe")
    page = opened(request.getfixturevalue(name), screen=screen)
    # One row of each kind open; all of them take axe minutes.
    page.evaluate(
        "['.library', '.claims'].forEach(s => document.querySelectorAll(`${s} > details.row`)"
        ".forEach((row, n) => row.open = n < 3))"
    )
    found = axe.Axe().run(page)
    assert found.violations_count == 0, found.generate_report()


def test_the_filters_choose_rows(opened, made_up):
    page = opened(made_up)
    assert len(shown(page)) == 8
    cases = [
        ("select_option", "library", "beta-x", 3),
        ("select_option", "encoding", "ALiBi", 1),
        ("select_option", "verdict", "deviates", 1),  # in bfloat16, in the newest release
        ("select_option", "verdict", "ever", 2),
        ("fill", "text", "NO SUCH class", 1),
        ("fill", "text", "<script>", 4),  # a name, a limit, a claim and the row that links to it
        ("fill", "text", "nowhere", 0),
    ]
    for action, field, value, count in cases:
        getattr(page.locator(f"[name={field}]"), action)(value)
        assert len(shown(page)) == count, (field, value)
        functions = sum(not link.startswith("claims/") for link in shown(page))
        said = f"Shown: {functions} of 6 functions, {count - functions} of 2 deviations."
        assert page.inner_text("#shown") == said
        page.click("text=Show all")
        page.locator("#shown", has_text="6 of 6").wait_for()
    assert page.said == []


def test_a_cell_of_the_matrix_shows_its_functions(opened, made_up):
    page = opened(made_up)
    page.click("a.cell[data-encoding=RoPE]")
    page.wait_for_url("**#alpha")
    assert shown(page) == ["alpha/rope", "claims/alpha/made-up/wrong"]


@pytest.mark.parametrize("javascript", [True, False])
def test_a_permanent_link_opens_its_row(opened, made_up, javascript):
    page = opened(made_up, "#alpha/rope", java_script_enabled=javascript)
    row = page.locator("details.row:has([id='alpha/rope'])")
    row.locator(".finding").first.wait_for(state="visible")
    assert 0 <= row.bounding_box()["y"] < 400
    assert page.locator("details.row[open]").count() == 1


def test_a_link_to_a_hidden_row_shows_it(opened, made_up):
    page = opened(made_up)
    page.select_option("[name=library]", "beta-x")
    page.evaluate("location.hash = '#claims/alpha/made-up/wrong'")
    page.locator("[id='claims/alpha/made-up/wrong']").wait_for(state="visible")
    assert len(shown(page)) == 8
    row = page.locator("details.row:has([id='claims/alpha/made-up/wrong'])")
    assert 0 <= row.bounding_box()["y"] < 400


def test_rows_open_with_the_keyboard(opened, made_up):
    page = opened(made_up)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    assert page.evaluate("document.activeElement.getBoundingClientRect().left") > 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"
    summary = page.locator("details.row > summary").first
    for _ in range(40):
        page.keyboard.press("Tab")
        if summary.evaluate("s => s === document.activeElement"):
            break
    assert summary.evaluate("s => getComputedStyle(s).outlineStyle") == "solid"
    page.keyboard.press("Enter")
    assert page.locator("details.row[open]").count() == 1


def test_without_javascript_there_are_tables_and_rows_and_no_filter(opened, made_up):
    page = opened(made_up, java_script_enabled=False)
    assert not page.locator("#filters").is_visible()
    assert page.locator(".matrix tbody tr").count() == 3
    page.locator("details.row > summary").first.click()
    assert page.locator("details.row .outcome").first.is_visible()


def test_the_time_line_has_a_mark_for_each_release(opened, made_up):
    page = opened(made_up)
    marks = page.locator(".timeline tr:has(a[href='#alpha/rope']) svg")
    labels = [mark.get_attribute("aria-label") for mark in marks.all()]
    assert labels == ["not drivable", "ok", "DEVIATES", "ok"]
    # Releases in a row with the same verdict are one bar.
    bar = page.locator(".timeline tr:has(a[href='#claims/alpha/made-up/wrong']) td")
    assert [one.get_attribute("colspan") for one in bar.all()] == [None] * 4
    strip = page.locator("details.row .strip").first
    for mark in marks.all():
        assert mark.bounding_box()["width"] == 12
    boxes = [bar.bounding_box() for bar in strip.locator("rect").all()]
    assert [box["width"] for box in boxes] == [13] * 4
    inside = strip.bounding_box()
    assert inside["x"] == boxes[0]["x"]
    assert inside["x"] + inside["width"] == boxes[-1]["x"] + 13
    # The page, the red and the green of marks and the grey of a dashed line: patterns are drawn.
    image = Image.open(io.BytesIO(strip.screenshot())).convert("RGB")
    for colour in ((255, 255, 255), (17, 99, 41), (179, 20, 18)):
        assert colour in {found for _, found in image.getcolors(10_000)}


def test_nothing_moves_while_it_loads(opened, folder):
    page = opened(folder)
    moved = page.evaluate(
        "new Promise(done => { let sum = 0; new PerformanceObserver(list => list.getEntries()"
        ".forEach(e => sum += e.value)).observe({type: 'layout-shift', buffered: true});"
        "setTimeout(() => done(sum), 500) })"
    )
    assert moved == 0
