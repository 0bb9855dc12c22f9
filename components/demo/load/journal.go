package load

import (
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"
)

const (
	// keepOps is how many of the newest Ops a journal keeps whole; there are at most
	// twice as many. Of older ones the ids that were acknowledged and their number stay.
	keepOps = 100_000
	// keepSpans bounds the spans of acknowledged ids, and so the memory of a journal with many
	// failures between its writes.
	keepSpans = 100_000
	// reserveIDs is how many ids are reserved at once: about a minute's.
	reserveIDs = 10_000
	// maxQueue is how many finished Ops may wait for the disk before writers do.
	maxQueue = 4096
)

// Journal records the attempted and the acknowledged writes, over the starts of the load: an Op
// counts from the moment when it would survive a power cut, and no id is issued twice. Safe for
// concurrent use; Close ends it.
type Journal struct {
	disk disk
	done chan struct{}
	// keep is keepOps, for tests.
	keep int

	mu   sync.Mutex // guards the following
	turn *sync.Cond // something below changed
	// kept is the part that survives.
	kept kept
	// earlier are the ids that were acknowledged before this start.
	earlier IDs
	queue   []Op
	next    int64
	// reserving asks the committer to reserve more ids; committing is its work.
	reserving, committing, closing bool
	err                            error
}

// kept is a journal's durable content.
type kept struct {
	// ops are the newest Ops, older the ones before them.
	ops   []Op
	older older
	// acknowledged are the ids of all acknowledged writes but unchecked ones.
	acknowledged IDs
	// reserved is the highest id that may have been issued.
	reserved int64
	starts   int
}

// older are the Ops that are not kept whole any more.
type older struct {
	Attempted    int `json:"attempted"`
	Acknowledged int `json:"acknowledged"`
	// Unchecked acknowledged writes are counted, their ids are forgotten.
	Unchecked int `json:"unchecked,omitempty"`
	// Until is the end of the last of them.
	Until time.Time `json:"until"`
}

// ErrClosed means that the journal takes nothing any more.
var ErrClosed = errors.New("the journal is closed")

// OpenJournal opens the journal at path, or begins one. It drops a last line that a power cut tore;
// any other unreadable line is an error. Ids continue after the highest issued one, and after
// highest, the highest id in the system under load: a journal may have been lost.
func OpenJournal(path string, highest int64) (*Journal, error) {
	d, err := openFile(path)
	if err != nil {
		return nil, fmt.Errorf("open the journal: %w", err)
	}
	return newJournal(d, highest, keepOps)
}

func newJournal(d disk, highest int64, keep int) (*Journal, error) {
	k, err := recoverFrom(d)
	if err != nil {
		return nil, errors.Join(err, d.Close())
	}
	j := &Journal{disk: d, done: make(chan struct{}), keep: keep, kept: k, earlier: k.acknowledged.Clone()}
	j.turn = sync.NewCond(&j.mu)
	j.next = max(k.reserved, highest) + 1
	j.kept.reserved = j.next - 1
	j.kept.starts++
	if err := commit(d, lines{{Begun: &began{At: time.Now().UTC()}}}); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	go j.commitAll()
	return j, nil
}

// Next issues an id. It waits for the disk only when ids are used up faster than they
// are reserved.
func (j *Journal) Next() (int64, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		if err := j.over(); err != nil {
			return 0, err
		}
		if !j.reserving && j.next > j.kept.reserved-reserveIDs/2 {
			j.reserving = true
			j.turn.Broadcast()
		}
		if j.next <= j.kept.reserved {
			j.next++
			return j.next - 1, nil
		}
		j.turn.Wait()
	}
}

// Add hands over a finished Op. It counts once it is on the disk, a moment later.
func (j *Journal) Add(op Op) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for len(j.queue) >= maxQueue && j.over() == nil {
		j.turn.Wait()
	}
	if err := j.over(); err != nil {
		return err
	}
	j.queue = append(j.queue, op)
	j.turn.Broadcast()
	return nil
}

// over says why the journal takes nothing any more; called under the lock.
func (j *Journal) over() error {
	if j.err == nil && j.closing {
		return ErrClosed
	}
	return j.err
}

// Flush waits until every Op that was handed over counts.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	for (len(j.queue) > 0 || j.committing) && j.err == nil {
		j.turn.Wait()
	}
	return j.err
}

// Err is the error of the disk; the journal accepts nothing after it.
func (j *Journal) Err() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.err
}

// Close writes the open lines and closes the file.
func (j *Journal) Close() error {
	err := j.Flush()
	j.mu.Lock()
	j.closing = true
	j.turn.Broadcast()
	j.mu.Unlock()
	<-j.done
	return errors.Join(err, j.disk.Close())
}

// commitAll writes the queued lines to the disk, all in one batch.
func (j *Journal) commitAll() {
	defer close(j.done)
	j.mu.Lock()
	defer j.mu.Unlock()
	for {
		for len(j.queue) == 0 && !j.reserving && !j.closing {
			j.turn.Wait()
		}
		if j.closing && len(j.queue) == 0 {
			return
		}
		batch, reserved := j.queue, j.kept.reserved
		j.queue = nil
		var text lines
		if j.reserving {
			reserved = max(reserved, j.next-1) + reserveIDs
			text = append(text, line{Reserved: reserved})
		}
		for _, op := range batch {
			text = append(text, line{Op: &op})
		}
		j.committing = true
		j.mu.Unlock()
		err := commit(j.disk, text)
		j.mu.Lock()
		if err == nil {
			j.kept.take(batch, reserved)
			j.turn.Broadcast()
			err = j.compact()
		}
		j.committing, j.reserving = false, false
		j.err = err
		j.turn.Broadcast()
		if err != nil {
			return
		}
	}
}

// compact rewrites the file when it holds twice as many Ops as are kept. It is called under the
// lock and releases it meanwhile: no other goroutine changes the kept part.
func (j *Journal) compact() error {
	if len(j.kept.ops) < 2*j.keep {
		return nil
	}
	j.mu.Unlock()
	smaller := j.kept.shrunk(j.keep)
	err := j.disk.Replace(smaller.lines())
	j.mu.Lock()
	if err != nil {
		return fmt.Errorf("shorten the journal %s: %w", j.disk.Name(), err)
	}
	j.kept = smaller
	return nil
}

// take adds Ops that are on the disk.
func (k *kept) take(ops []Op, reserved int64) {
	k.ops = append(k.ops, ops...)
	k.reserved = max(k.reserved, reserved)
	for _, op := range ops {
		if op.Acknowledged() {
			k.acknowledged.Add(op.ID)
		}
	}
}

// shrunk keeps the newest n Ops whole.
func (k kept) shrunk(n int) kept {
	gone := k.ops[:len(k.ops)-n]
	k.ops = slices.Clone(k.ops[len(k.ops)-n:])
	k.acknowledged = k.acknowledged.Clone()
	for _, op := range gone {
		k.older.Attempted++
		if op.Acknowledged() {
			k.older.Acknowledged++
		}
		if op.End.After(k.older.Until) {
			k.older.Until = op.End
		}
	}
	k.older.Unchecked += k.acknowledged.forget(keepSpans)
	return k
}

// Summary computes the figures of [from, to], by the end of the Ops. A zero time is open.
func (j *Journal) Summary(from, to time.Time) Summary {
	j.mu.Lock()
	defer j.mu.Unlock()
	var ops []Op
	for _, op := range j.kept.ops {
		if (from.IsZero() || !op.End.Before(from)) && (to.IsZero() || !op.End.After(to)) {
			ops = append(ops, op)
		}
	}
	sort.SliceStable(ops, func(a, b int) bool { return ops[a].End.Before(ops[b].End) })
	s := Summarize(ops, from, to)
	if old := j.kept.older; old.Attempted > 0 && from.Before(old.Until) {
		s.Partial = true
		if from.IsZero() {
			s.Attempted += old.Attempted
			s.Acknowledged += old.Acknowledged
			s.Failed += old.Attempted - old.Acknowledged
		}
	}
	return s
}

// Acknowledgements are the ids whose writes count as acknowledged.
type Acknowledgements struct {
	// All over all starts; Earlier those from before this start.
	All, Earlier IDs
	// Unchecked writes were acknowledged too, but their ids are forgotten.
	Unchecked int
	// Starts of the load so far.
	Starts int
}

// Acknowledgements returns the present acknowledgements.
func (j *Journal) Acknowledgements() Acknowledgements {
	j.mu.Lock()
	defer j.mu.Unlock()
	return Acknowledgements{All: j.kept.acknowledged.Clone(), Earlier: j.earlier.Clone(), Unchecked: j.kept.older.Unchecked, Starts: j.kept.starts}
}
