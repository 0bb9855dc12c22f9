package paths

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// world runs a State over simulated paths: it lets time pass, answers probes that the
// paths let through, and records the State's decisions.
type world struct {
	t     *testing.T
	s     State
	now   time.Duration
	seq   uint64
	sims  map[ID]*sim
	calls []call
	out   strings.Builder
	// traffic flows over the path in use
	traffic bool
	probes  int
}

type sim struct {
	rtt    time.Duration
	dead   bool // nothing is answered
	oneWay bool // nothing of ours arrives, things come in
}

// call is an answer under way.
type call struct {
	at  time.Duration
	id  ID
	seq uint64
}

const step = 5 * time.Millisecond

func (w *world) run(until time.Duration) {
	for w.now < until {
		w.now += step
		for len(w.calls) > 0 && w.calls[0].at <= w.now {
			c := w.calls[0]
			w.calls = w.calls[1:]
			if s := w.sims[c.id]; s != nil && !s.dead && !s.oneWay {
				w.s.Echo(w.now, c.id, c.seq)
				w.tick()
			}
		}
		if w.now%sample == 0 {
			for id, s := range w.sims {
				inUse := id == w.s.InUse()
				w.s.Traffic(w.now, id, w.traffic && inUse, w.traffic && inUse && !s.dead || s.oneWay)
			}
		}
		if w.now >= w.s.Next(w.now) || w.now%sample == 0 {
			w.tick()
		}
	}
}

func (w *world) tick() {
	for _, e := range slices.Clone(w.s.Tick(w.now)) {
		if e.Do == SendProbe {
			w.probes++
			w.seq++
			w.s.Sent(w.now, e.Path, w.seq)
			if s := w.sims[e.Path]; s != nil && !s.dead && !s.oneWay {
				w.calls = append(w.calls, call{w.now + s.rtt, e.Path, w.seq})
				slices.SortStableFunc(w.calls, func(a, b call) int { return int(a.at - b.at) })
			}
			continue
		}
		if e.Do == Drop {
			delete(w.sims, e.Path)
		}
		fmt.Fprintf(&w.out, "%8v  %s %d", w.now, e.Do, e.Path)
		if e.Reason != "" {
			fmt.Fprintf(&w.out, "  (%s)", e.Reason)
		}
		w.out.WriteByte('\n')
		w.check(e)
	}
}

// check verifies the invariants after every decision.
func (w *world) check(e Effect) {
	if p := w.s.find(w.s.InUse()); w.s.InUse() != 0 && (p == nil || p.state == Probing) {
		w.t.Errorf("%v: %v: path %d in use was never answered", w.now, e, w.s.InUse())
	}
}

// do carries out one line of a script.
func (w *world) do(line string) {
	f := strings.Fields(line)
	arg := func(i int) string {
		if i < len(f) {
			return f[i]
		}
		w.t.Fatalf("line %q is too short", line)
		return ""
	}
	id := func() ID {
		var n ID
		if _, err := fmt.Sscan(arg(1), &n); err != nil {
			w.t.Fatalf("line %q: %v", line, err)
		}
		return n
	}
	span := func(s string) time.Duration {
		d, err := time.ParseDuration(s)
		if err != nil {
			w.t.Fatalf("line %q: %v", line, err)
		}
		return d
	}
	switch arg(0) {
	case "add": // add ID SEARCH KIND RTT|dead
		n := id()
		if evict, ok := w.s.Room(arg(2)); !ok || evict != 0 {
			fmt.Fprintf(&w.out, "%8v  room for %d: %v, instead of %d\n", w.now, n, ok, evict)
			if !ok {
				return
			}
			w.s.Remove(evict)
			delete(w.sims, evict)
		}
		s := &sim{}
		if arg(4) == "dead" {
			s.dead = true
		} else {
			s.rtt = span(arg(4))
		}
		w.sims[n] = s
		w.s.Add(w.now, n, arg(2), Kind(arg(3)))
	case "remove":
		w.s.Remove(id())
		delete(w.sims, id())
	case "dead":
		w.sims[id()].dead = true
	case "oneway":
		w.sims[id()].oneWay = true
	case "alive": // alive ID RTT
		s := w.sims[id()]
		*s = sim{rtt: span(arg(2))}
	case "rtt":
		w.sims[id()].rtt = span(arg(2))
	case "heard":
		w.s.Heard(w.now, id(), false)
	case "traffic":
		w.traffic = arg(1) == "on"
	case "stopped": // the process is, for a while
		w.now += span(arg(1))
	case "rebound": // rebound SEARCH AGO
		n, ok := w.s.Rebound(arg(1), w.now-span(arg(2)))
		fmt.Fprintf(&w.out, "%8v  rebound: %d %v\n", w.now, n, ok)
		if ok {
			w.s.Proven(w.now, n, 10*time.Millisecond)
		}
	case "run":
		w.probes = 0
		w.run(w.now + span(arg(1)))
		fmt.Fprintf(&w.out, "%8v  -- in use %d, %d probes\n", w.now, w.s.InUse(), w.probes)
		return
	default:
		w.t.Fatalf("line %q", line)
	}
	w.tick()
}

// Each file of testdata is a script with the expected output after each command. UPDATE=1
// records the output again.
func TestScripts(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no scripts", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			w := &world{t: t, sims: map[ID]*sim{}}
			sc := bufio.NewScanner(strings.NewReader(string(b)))
			for sc.Scan() {
				line := sc.Text()
				if strings.HasPrefix(line, " ") {
					continue
				}
				fmt.Fprintln(&w.out, line)
				if line != "" && !strings.HasPrefix(line, "#") {
					w.do(line)
				}
			}
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, []byte(w.out.String()), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if got := w.out.String(); got != string(b) {
				t.Errorf("got\n%s\nwant\n%s", got, b)
			}
		})
	}
}
