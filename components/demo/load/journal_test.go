package load

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// powerDisk loses the unsynced data at a power cut.
type powerDisk struct {
	mu            sync.Mutex
	durable, rest []byte
	off           bool
	fails         error
	replaced      int
}

var errPower = errors.New("no power")

func (d *powerDisk) Write(p []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return 0, errPower
	}
	if d.fails != nil {
		return 0, d.fails
	}
	d.rest = append(d.rest, p...)
	return len(p), nil
}

func (d *powerDisk) Sync() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return errPower
	}
	d.durable = append(d.durable, d.rest...)
	d.rest = nil
	return nil
}

func (d *powerDisk) Close() error { return nil }

func (d *powerDisk) Name() string { return "test.jsonl" }

func (d *powerDisk) Read() (io.ReadCloser, error) {
	return io.NopCloser(bytes.NewReader(bytes.Clone(d.durable))), nil
}

func (d *powerDisk) Truncate(size int64) error {
	d.durable = d.durable[:size]
	return nil
}

func (d *powerDisk) Replace(text lines) error {
	var all bytes.Buffer
	if _, err := text.WriteTo(&all); err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.off {
		return errPower
	}
	d.durable, d.rest = all.Bytes(), nil
	d.replaced++
	return nil
}

// cut ends the power: some of the unsynced data may be there. It returns the disk for the next
// start.
func (d *powerDisk) cut(random *rand.Rand) *powerDisk {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.off = true
	return &powerDisk{durable: append(bytes.Clone(d.durable), d.rest[:random.IntN(len(d.rest)+1)]...)}
}

// opened is a journal on a disk that keeps at least n Ops.
func opened(t *testing.T, d disk, n int) *Journal {
	t.Helper()
	j, err := newJournal(d, 0, n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = j.Close() })
	return j
}

// add records Ops that were just made.
func add(t *testing.T, j *Journal, acknowledged bool) int64 {
	t.Helper()
	id, err := j.Next()
	if err != nil {
		t.Fatal(err)
	}
	op := Op{ID: id, Start: at(int(id)), End: at(int(id) + 1), Server: "a"}
	if !acknowledged {
		op.Server, op.Error = "", "connection reset"
	}
	if err := j.Add(op); err != nil {
		t.Fatal(err)
	}
	return id
}

func flush(t *testing.T, j *Journal) {
	t.Helper()
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
}

// After a power cut at any time, the journal still has every acknowledged write, and no id is
// issued twice. Many starts in a row, with a short journal that is rewritten often.
func TestPowerCutsLoseNothingThatCounted(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	d := &powerDisk{}
	highest := int64(0)
	var counted Acknowledgements
	for start := range 40 {
		j, err := newJournal(d, 0, 50)
		if err != nil {
			t.Fatalf("start %d: %v", start, err)
		}
		now := j.Acknowledgements()
		if lost := counted.All.Without(now.All); lost.Len() > 0 {
			t.Fatalf("start %d: %v counted as acknowledged and are gone", start, lost.First(9))
		}
		if now.Starts != start+1 {
			t.Errorf("starts = %d, want %d", now.Starts, start+1)
		}
		var writers sync.WaitGroup
		var mu sync.Mutex
		stop := make(chan struct{})
		first := highest
		for range 3 {
			writers.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
					}
					id, err := j.Next()
					if err != nil {
						return
					}
					mu.Lock()
					if id <= first {
						t.Errorf("start %d: id %d was issued before", start, id)
					}
					highest = max(highest, id)
					mu.Unlock()
					if j.Add(Op{ID: id, Start: at(0), End: at(int(id)), Server: "a"}) != nil {
						return
					}
				}
			})
		}
		// The power goes once some more writes count.
		for want := now.All.Len() + 1 + random.IntN(150); ; {
			runtime.Gosched()
			if counted = j.Acknowledgements(); counted.All.Len() >= want {
				break
			}
		}
		d = d.cut(random)
		close(stop)
		writers.Wait()
		_ = j.Close()
	}
}

// A journal that was torn anywhere opens, with all whole lines.
func TestATornJournalOpens(t *testing.T) {
	d := &powerDisk{}
	j := opened(t, d, 1000)
	for n := range 20 {
		add(t, j, n%5 != 0)
	}
	flush(t, j)
	whole := bytes.Clone(d.durable)
	for size := range len(whole) + 1 {
		k, err := recoverFrom(&powerDisk{durable: bytes.Clone(whole[:size])})
		if err != nil {
			t.Fatalf("%d of %d bytes: %v", size, len(whole), err)
		}
		if want := bytes.Count(whole[:size], []byte(`"id":`)) - torn(whole[:size]); len(k.ops) != want {
			t.Fatalf("%d of %d bytes: %d writes, want %d", size, len(whole), len(k.ops), want)
		}
		if len(k.ops) > 0 && k.reserved < k.ops[len(k.ops)-1].ID {
			t.Fatalf("%d bytes: id %d was issued, reserved are those to %d", size, k.ops[len(k.ops)-1].ID, k.reserved)
		}
	}
}

// torn is 1 where the last line has an id but no end.
func torn(text []byte) int {
	return bytes.Count(text[bytes.LastIndexByte(text, '\n')+1:], []byte(`"id":`))
}

func TestDamageBeforeTheLastLineIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "j.jsonl")
	for _, c := range []struct{ name, text string }{
		{"not JSON", "{\"reserved\":10}\nxx\n{\"reserved\":20}\n"},
		{"not a journal's", "{\"reserved\":10}\n{\"x\":1}\n{\"reserved\":20}\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := OpenJournal(path, 0)
			if err == nil || !strings.Contains(err.Error(), path+", line 2") || !strings.Contains(err.Error(), "move the file away") {
				t.Errorf("error = %v", err)
			}
		})
	}
}

// A reopened file continues; events before the start are distinguished.
func TestAJournalGoesOn(t *testing.T) {
	path := filepath.Join(t.TempDir(), "deep", "j.jsonl")
	first, err := OpenJournal(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	low := add(t, first, true)
	add(t, first, false)
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	// A power cut tore the last line.
	torn, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprint(torn, `{"id":3,"start":"2026`)
	if err := torn.Close(); err != nil {
		t.Fatal(err)
	}
	second, err := OpenJournal(path, 0)
	if err != nil {
		t.Fatal(err)
	}
	high := add(t, second, true)
	flush(t, second)
	acks := second.Acknowledgements()
	if acks.Starts != 2 || acks.All.Len() != 2 || acks.Earlier.Len() != 1 || !acks.Earlier.Has(low) || !acks.All.Has(high) {
		t.Errorf("acknowledgements = %+v", acks)
	}
	if high <= reserveIDs {
		t.Errorf("id %d may have been issued before the power cut", high)
	}
	if s := second.Summary(time.Time{}, time.Time{}); s.Attempted != 3 || s.Acknowledged != 2 || s.Failed != 1 || s.Partial {
		t.Errorf("summary of all starts = %+v", s)
	}
	if err := second.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := second.Next(); !errors.Is(err, ErrClosed) {
		t.Errorf("Next after Close: %v", err)
	}
}

// A journal that was lost with its disk issues no id that the table holds.
func TestALostJournalGoesOnBehindTheTable(t *testing.T) {
	j, err := newJournal(&powerDisk{}, 12345, 10)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = j.Close() }()
	if id := add(t, j, true); id != 12346 {
		t.Errorf("first id = %d, want 12346", id)
	}
}

func TestAJournalIsBounded(t *testing.T) {
	d := &powerDisk{}
	j := opened(t, d, 10)
	size := 0
	for n := range 500 {
		add(t, j, n%7 != 0)
		flush(t, j)
		size = max(size, len(d.durable))
	}
	if d.replaced < 10 || bytes.Count(d.durable, []byte(`"id":`)) > 20 {
		t.Errorf("rewritten %d times, %d writes in the file", d.replaced, bytes.Count(d.durable, []byte(`"id":`)))
	}
	again := opened(t, d, 10)
	for name, j := range map[string]*Journal{"now": j, "after another start": again} {
		if got, want := j.Acknowledgements().All.Len(), 500-72; got != want {
			t.Errorf("%s: %d acknowledged, want %d", name, got, want)
		}
		s := j.Summary(time.Time{}, time.Time{})
		if s.Attempted != 500 || s.Acknowledged != 428 || s.Failed != 72 || !s.Partial {
			t.Errorf("%s: summary = %+v", name, s)
		}
		if s := j.Summary(at(498), time.Time{}); s.Partial || s.Attempted != 4 {
			t.Errorf("%s: summary of the end = %+v", name, s)
		}
	}
}

func TestADiskThatFailsEndsTheLoad(t *testing.T) {
	full := errors.New("no space left on device")
	d := &powerDisk{}
	j := opened(t, d, 10)
	add(t, j, true)
	flush(t, j)
	d.mu.Lock()
	d.fails = full
	d.mu.Unlock()
	add(t, j, true)
	if err := j.Flush(); !errors.Is(err, full) || !strings.Contains(err.Error(), "test.jsonl") {
		t.Errorf("Flush = %v", err)
	}
	if got := j.Acknowledgements().All.Len(); got != 1 {
		t.Errorf("%d writes count, want the one that is on the disk", got)
	}
	if _, err := j.Next(); !errors.Is(err, full) {
		t.Errorf("Next = %v", err)
	}
}
