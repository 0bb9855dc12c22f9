package command

import (
	"strings"
	"testing"
)

func TestPublishedImagesAreListedWithTheirSource(t *testing.T) {
	code, out := run(t, "image", "known")
	if code != 0 || !strings.Contains(out, "dstack-0.5.8") || !strings.Contains(out, "near/mpc@") || !strings.Contains(out, "8 vCPU, 65536 MiB, QEMU 8.2.2") {
		t.Errorf("%d\n%s", code, out)
	}
	if code, out := run(t, "image", "known", "-o", "json"); code != 0 || !strings.Contains(out, `"rtmr2": "9284cde2`) {
		t.Errorf("%d\n%s", code, out)
	}
}

func TestImageMeasureSaysWhatItLacks(t *testing.T) {
	dir := t.TempDir()
	for want, args := range map[string][]string{
		"--memory-mb and --qemu": {dir},
		"no VM has that much":    {dir, "--memory-mb", "99999999999", "--qemu", "8.2.2"},
		"no metadata.json":       {dir, "--memory-mb", "2048", "--qemu", "8.2.2"},
		"no answer of a guest":   {dir, "--evidence", "image_test.go"},
	} {
		if code, out := run(t, append([]string{"image", "measure"}, args...)...); code == 0 || !strings.Contains(out, want) {
			t.Errorf("want %q: %d\n%s", want, code, out)
		}
	}
	// The evidence gives memory and QEMU, so only the release is missing.
	if code, out := run(t, "image", "measure", dir, "--evidence", "../../../attest/testdata/dstack-quote-report.json"); code == 0 || !strings.Contains(out, "no metadata.json") {
		t.Errorf("%d\n%s", code, out)
	}
}
