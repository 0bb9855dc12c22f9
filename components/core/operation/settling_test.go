package operation

import (
	"testing"
	"time"
)

// TestR89_AMemberThatCannotReturnFailsWhileItSettles: the step fails as soon as its CVM is certainly gone, or the
// platform reports that the next boot cannot work.
func TestR89_AMemberThatCannotReturnFailsWhileItSettles(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(f *Facts)
		want Phase
	}{
		"it is well":                             {func(*Facts) {}, Settling},
		"its boot does not work":                 {func(f *Facts) { f.ReadySince, f.Platform.BootError = time.Time{}, "no disk" }, Failed},
		"the same, and it is ready by its agent": {func(f *Facts) { f.Platform.BootError = "no disk" }, Settling},
		"it is ill":                              {func(f *Facts) { f.ReadySince = time.Time{} }, Joining},
	} {
		op, now := to(t, Update, Settling)
		f := available(now, op.Seen.AvailableSince)
		c.edit(&f)
		if next, _ := Advance(op, f, now); next.Phase != c.want {
			t.Errorf("%s: %s (%s), want %s", name, next.Phase, next.Reason, c.want)
		}
	}
}
