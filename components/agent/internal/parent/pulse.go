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

// pulse decides when a worker that runs hangs. It counts the parent's own looks and no time:
// a machine that stood still for an hour made one look in it, not hundreds, so who could not
// speak because nobody ran is not killed for it.
type pulse struct {
	// beats were heard by the last look, missed looks followed the last beat.
	beats  uint64
	missed int
}

// look takes a look, of so many beats since the worker's start. A worker that never said that it
// gets on is not judged: it may be waiting for what it needs to begin.
func (p pulse) look(beats uint64) (next pulse, hung bool) {
	if beats != p.beats || beats == 0 {
		return pulse{beats: beats}, false
	}
	p.missed++
	return p, p.missed >= missedMost
}
