// Package browsertest answers: what does a browser make of our pages? In go a test; out comes a browser of its own, which ends with it.
package browsertest

import (
	"context"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// Start starts a browser of the test's own. What a page complains about makes the test fail.
func Start(t testing.TB) context.Context {
	t.Helper()
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(find(t)), chromedp.DisableGPU,
		chromedp.Flag("disable-dev-shm-usage", true), chromedp.Flag("font-render-hinting", "none"), chromedp.Flag("disable-lcd-text", true),
		chromedp.WSURLReadTimeout(time.Minute))
	if os.Geteuid() == 0 {
		options = append(options, chromedp.NoSandbox) // which root may not have; it opens our own pages only
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewExecAllocator(ctx, options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	chromedp.ListenTarget(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("a page threw: %v", e.ExceptionDetails)
		case *log.EventEntryAdded:
			t.Errorf("the browser says: %s %s", e.Entry.Text, e.Entry.URL)
		}
	})
	Do(t, ctx, log.Enable())
	return ctx
}

func find(t testing.TB) string {
	t.Helper()
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	Missing(t, "there is no chromium to open the pages in")
	return ""
}

// Missing skips a test that a browser, or something for it, is needed for, or fails it where there must be one.
func Missing(t testing.TB, what string) {
	t.Helper()
	if os.Getenv("UNTHROTTLE_REQUIRE_BROWSER") == "1" {
		t.Fatal("UNTHROTTLE_REQUIRE_BROWSER is 1, and " + what)
	}
	t.Skip(what)
}

// Do makes the browser do something.
func Do(t testing.TB, ctx context.Context, actions ...chromedp.Action) {
	t.Helper()
	if err := chromedp.Run(ctx, actions...); err != nil {
		t.Fatal(err)
	}
}
