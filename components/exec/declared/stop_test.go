package declared_test

import (
	"maps"
	"testing"
	"time"

	"cadre.dev/exec/declared"
)

func TestStopsAreThoseOfTheText(t *testing.T) {
	got := declared.Stops(`
x-long: &long { image: db, stop_grace_period: 2m }
services:
  db: *long
  api: { image: api, stop_grace_period: 1m30s }
  web: { image: web }
  odd: { image: odd, stop_grace_period: "${GRACE}" }
  none: { image: none, stop_grace_period: 0s }
`)
	if want := map[string]time.Duration{"db": 2 * time.Minute, "api": 90 * time.Second}; !maps.Equal(got, want) {
		t.Errorf("stops %v, want %v", got, want)
	}
	for _, text := range []string{"", "services: [", "services: 3", "services:\n  a: 1\n"} {
		if got := declared.Stops(text); len(got) > 0 {
			t.Errorf("%q: %v", text, got)
		}
	}
}
