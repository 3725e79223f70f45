#!/bin/sh
# Gets a browser for tests/verify/test_html_browser.py where there is none: Playwright's own build, into .venv/browsers;
# else, in continuous integration as root on Debian, the package chromium. Without either those tests are skipped, which
# is no failure.
bin=.venv/bin
here() {
    for name in chromium chromium-browser google-chrome chrome; do
        command -v "$name" >/dev/null 2>&1 && return
    done
    ls "$PLAYWRIGHT_BROWSERS_PATH"/chromium*/*/* >/dev/null 2>&1
}
[ -n "$SHARDLINT_TEST_BROWSER" ] && exit
here && exit
log=.venv/browser.log
echo "No browser found; getting one for the tests of the HTML page (needed once) ..."
if $bin/playwright install chromium >"$log" 2>&1; then
    exit
fi
if [ -n "$CI" ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >>"$log" 2>&1 </dev/null
fi
here || echo "None to be had (see $log): the tests that open the page are skipped."
exit 0
