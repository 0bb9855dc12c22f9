package parent

import "time"

const (
	// BeatEvery is the interval of a worker's beats.
	BeatEvery = 5 * time.Second
	// lookEvery is the parent's interval of looks for a beat, and missedMost the number of missed
	// looks in a row after which the worker hangs: a minute.
	lookEvery  = 10 * time.Second
	missedMost = 6
)

// pulse decides when a running worker hangs. It counts the parent's own looks instead of time:
// after a machine was paused for an hour the parent has made one look, not hundreds. So it does not
// kill a worker that had no CPU to send a beat.
type pulse struct {
	// beats is the number of beats at the last look, missed the number of looks since the last
	// beat.
	beats  uint64
	missed int
}

// look judges the worker by the number of beats since its start. A worker that has never sent a
// beat is not judged: it may be waiting for a dependency before it begins.
func (p pulse) look(beats uint64) (next pulse, hung bool) {
	if beats != p.beats || beats == 0 {
		return pulse{beats: beats}, false
	}
	p.missed++
	return p, p.missed >= missedMost
}
