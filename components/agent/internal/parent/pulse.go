package parent

import "time"

const (
	// BeatEvery is how often a worker is to say that it gets on.
	BeatEvery = 5 * time.Second
	// lookEvery is how often the parent looks whether it did, and missedMost at how many
	// looks in a row it may have said nothing: hung for a minute.
	lookEvery  = 10 * time.Second
	missedMost = 6
)

// pulse decides when a running worker hangs. It counts the parent's own looks instead of time:
// after a machine was paused for an hour the parent has made one look, not hundreds. So it does not
// kill a worker that had no CPU to send a beat.
type pulse struct {
	// beats were heard by the last look, missed looks followed the last beat.
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
