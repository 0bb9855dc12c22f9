package renewal

import (
	"testing"
	"time"
)

// A Boot that loses all coordinators just before its renewal still has credentials for an hour.
func TestTOK15_ALongLifeIsRenewedEarly(t *testing.T) {
	const life = 75 * time.Minute
	since := time.Unix(1e9, 0)
	for _, h := range []Credentials{{Since: since, Ends: since.Add(life)}, {Since: since, Ends: since.Add(15 * time.Minute)}} {
		for _, spread := range []float64{0, 0.5, 0.999} {
			if due := h.due(spread); due.Before(since) || since.Add(life).Sub(due) < time.Hour+5*time.Minute {
				t.Errorf("due %v after it came, of a life of %v", due.Sub(since), h.Ends.Sub(since))
			}
		}
	}
	short := Credentials{Since: since, Ends: since.Add(3 * time.Minute)}
	if due := short.due(0); !due.Equal(since.Add(time.Minute)) {
		t.Errorf("due %v after it came, of a life of three minutes", due.Sub(since))
	}
}
