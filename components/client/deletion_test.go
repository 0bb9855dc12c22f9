package client

import (
	"testing"
	"time"
)

// A cancelled deletion ends the wait. A coordinator that has not seen the deletion yet, or cannot
// report it, does not end the wait.
func TestADeletionThatWasTakenBackIsNoticed(t *testing.T) {
	yes, no := true, false
	type look struct {
		after time.Duration
		said  *bool
		want  bool
	}
	for name, looks := range map[string][]look{
		"taken back":                   {{0, &yes, false}, {time.Second, &no, false}, {time.Second + pauseGrace, &no, true}},
		"one lags behind":              {{0, &yes, false}, {time.Second, &no, false}, {2 * time.Second, &yes, false}, {2*time.Second + pauseGrace, &no, false}},
		"no coordinator has seen it":   {{0, &no, false}, {pauseGrace, &no, false}, {propagationLimit - 1, &no, false}, {propagationLimit, &yes, false}},
		"taken back before a look":     {{0, &no, false}, {propagationLimit, &no, true}},
		"no coordinator can report it": {{0, nil, false}, {time.Hour, nil, false}},
	} {
		var d deletionWatch
		begun := time.Unix(0, 0)
		for i, l := range looks {
			if got := d.kept(l.said, begun.Add(l.after)); got != l.want {
				t.Errorf("%s, look %d: %v, want %v", name, i, got, l.want)
			}
		}
	}
}
