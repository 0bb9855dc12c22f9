package latestvalue

import (
	"context"
	"testing"

	"cadre.dev/raced/synctest"
)

// TestEach: do runs at once, after each change of any source, once more for changes meanwhile, and
// never after ctx has ended.
func TestEach(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var (
			a     Value[int]
			b     Value[string]
			times int
		)
		ctx, cancel := context.WithCancel(t.Context())
		go Each(ctx, func() {
			if times++; times == 1 {
				b.Set("meanwhile")
			}
		}, a.Next, b.Next, func() <-chan struct{} { return nil })
		for _, step := range []struct {
			name string
			do   func()
			want int
		}{
			{"nothing yet", func() {}, 2},
			{"one changes", func() { a.Set(1) }, 3},
			{"both change", func() { b.Update(func(string) string { a.Set(2); return "" }) }, 4},
			{"ctx ended", cancel, 4},
			{"one changes after that", func() { a.Set(3) }, 4},
		} {
			step.do()
			if synctest.Wait(); times != step.want {
				t.Errorf("%s: done %d times, want %d", step.name, times, step.want)
			}
		}
	})
}
