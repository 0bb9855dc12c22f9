package envoy

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestPlan(t *testing.T) {
	moved := web
	moved.Node = "web-1"
	for name, tc := range map[string]struct {
		wanted, keeping []Proxy
		notSet          bool
		folders         []string
		want            todo
	}{
		"nothing":                        {},
		"no Set yet":                     {notSet: true, folders: []string{"a"}},
		"a new one":                      {wanted: []Proxy{web}, want: todo{start: []Proxy{web}}},
		"it is there":                    {wanted: []Proxy{web}, keeping: []Proxy{web}, folders: []string{folderName(web.ID)}},
		"an additional proxy":            {wanted: []Proxy{web, db}, keeping: []Proxy{web}, want: todo{start: []Proxy{db}}},
		"not wanted any more":            {keeping: []Proxy{web}, folders: []string{folderName(web.ID)}, want: todo{stop: []string{web.ID}}},
		"changed":                        {wanted: []Proxy{moved}, keeping: []Proxy{web}, want: todo{stop: []string{web.ID}, start: []Proxy{moved}}},
		"left by an earlier one":         {folders: []string{"a", "b"}, want: todo{sweep: []string{"a", "b"}}},
		"left by an earlier, and wanted": {wanted: []Proxy{web}, folders: []string{folderName(web.ID), "a"}, want: todo{start: []Proxy{web}, sweep: []string{"a"}}},
	} {
		set := func(list []Proxy) map[string]Proxy {
			out := map[string]Proxy{}
			for _, p := range list {
				out[p.ID] = p
			}
			return out
		}
		wanted := set(tc.wanted)
		if tc.notSet {
			wanted = nil
		}
		got := plan(wanted, set(tc.keeping), tc.folders)
		if !slices.Equal(got.start, tc.want.start) || !slices.Equal(got.stop, tc.want.stop) || !slices.Equal(got.sweep, tc.want.sweep) {
			t.Errorf("%s: got %+v, want %+v", name, got, tc.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	same := found{held: true, answers: true, sameCommand: true, sameBootstrap: true, sameNode: true}
	with := func(change func(*found)) found {
		f := same
		change(&f)
		return f
	}
	for name, tc := range map[string]struct {
		found found
		want  verdict
	}{
		"nobody":            {found{}, startNew},
		"the same":          {same, takeOver},
		"silent":            {with(func(f *found) { f.answers = false }), replace},
		"another program":   {with(func(f *found) { f.sameCommand = false }), replace},
		"another bootstrap": {with(func(f *found) { f.sameBootstrap = false }), replace},
		"another node":      {with(func(f *found) { f.sameNode = false }), replace},
		"drained":           {with(func(f *found) { f.draining = true }), replace},
	} {
		got, why := tc.found.verdict()
		if got != tc.want || (why != "") != (got == replace) {
			t.Errorf("%s: got %v %q, want %v", name, got, why, tc.want)
		}
	}
}

func TestRestarts(t *testing.T) {
	var r restarts
	var got []time.Duration
	for range 9 {
		var pause time.Duration
		r, pause = r.after(steady - 1)
		got = append(got, pause)
	}
	ms := time.Millisecond
	if want := []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms, 3200 * ms, 6400 * ms, pauseMost, pauseMost}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if _, pause := r.after(steady); pause != pauseFirst {
		t.Errorf("after it was live: %v", pause)
	}
}

func TestJudge(t *testing.T) {
	start := time.Unix(1000, 0)
	live := seen{answered: true, ready: "LIVE", listeners: 1, connected: true, accepted: 2}
	type step struct {
		after time.Duration
		seen  seen
	}
	for name, tc := range map[string]struct {
		steps    []step
		state    State
		message  string // a part of it
		hopeless bool
		next     time.Duration
	}{
		"not there yet":         {[]step{{0, seen{}}}, StateStarting, "", false, 2 * askFirst},
		"it begins":             {[]step{{0, seen{}}, {time.Second, seen{answered: true, ready: "PRE_INITIALIZING"}}}, StateStarting, "", false, 4 * askFirst},
		"it waits":              {[]step{{late, seen{answered: true, ready: "INITIALIZING"}}}, StateStarting, "waits for its configuration", false, askLate},
		"live":                  {[]step{{0, seen{}}, {time.Second, live}}, StateLive, "", false, askLive},
		"without listeners":     {[]step{{late, seen{answered: true, ready: "LIVE", connected: true}}}, StateStarting, "waits", false, askLate},
		"without coordinator":   {[]step{{0, live}, {time.Second, seen{answered: true, ready: "LIVE", listeners: 1, accepted: 2}}}, StateLive, "no connection", false, askLive},
		"drained":               {[]step{{0, live}, {time.Second, seen{answered: true, ready: "DRAINING"}}}, StateDraining, "", false, askLive},
		"refuses":               {[]step{{0, live}, {time.Second, seen{answered: true, ready: "LIVE", listeners: 1, connected: true, accepted: 2, refused: 1}}}, StateLive, "refused", false, askLive},
		"refuses still":         {[]step{{0, seen{answered: true, ready: "LIVE", listeners: 1, connected: true, accepted: 2, refused: 1}}, {time.Minute, seen{answered: true, ready: "LIVE", listeners: 1, connected: true, accepted: 2, refused: 1}}}, StateLive, "refused", false, askLive},
		"took another":          {[]step{{0, seen{answered: true, ready: "LIVE", listeners: 1, connected: true, accepted: 2, refused: 1}}, {time.Minute, seen{answered: true, ready: "LIVE", listeners: 1, connected: true, accepted: 3, refused: 1}}}, StateLive, "", false, askLive},
		"silent for a moment":   {[]step{{0, live}, {time.Second, seen{}}}, StateLive, "", false, askLive},
		"silent":                {[]step{{0, live}, {30 * time.Second, seen{}}}, StateLive, "no answer at its admin socket for 30s", false, askLive},
		"silent for too long":   {[]step{{0, live}, {silentFor, seen{}}}, StateLive, "no answer", true, askLive},
		"silent from the start": {[]step{{silentFor, seen{}}}, StateStarting, "no answer", true, 2 * askFirst},
		"silent, and back":      {[]step{{0, live}, {50 * time.Second, seen{}}, {55 * time.Second, live}, {80 * time.Second, seen{}}}, StateLive, "for 25s", false, askLive},
	} {
		o := begin(start)
		for _, s := range tc.steps {
			s.seen.at = start.Add(s.after)
			o = o.judge(s.seen)
		}
		if o.state != tc.state || !strings.Contains(o.message, tc.message) || (o.message == "") != (tc.message == "") || o.hopeless != tc.hopeless || o.next() != tc.next {
			t.Errorf("%s: got %s %q hopeless %v next %v, want %s %q %v %v", name, o.state, o.message, o.hopeless, o.next(), tc.state, tc.message, tc.hopeless, tc.next)
		}
	}
	o := begin(start)
	for range 100 {
		o = o.judge(seen{at: start})
	}
	if o.next() != askMost {
		t.Errorf("a silent Envoy is probed after %v", o.next())
	}
}

func TestLines(t *testing.T) {
	for line, want := range map[string]struct {
		level      slog.Level
		part, text string
	}{
		"[warning][main] caught ENVOY_SIGTERM":       {slog.LevelWarn, "main", "caught ENVOY_SIGTERM"},
		"[critical][main] error initializing: [x] y": {slog.LevelError, "main", "error initializing: [x] y"},
		"[info][x] y":            {slog.LevelInfo, "x", "y"},
		"terminate called [x] y": {slog.LevelWarn, "", "terminate called [x] y"},
		"[broken":                {slog.LevelWarn, "", "[broken"},
		"":                       {slog.LevelWarn, "", ""},
		"[warning][config] value: -----BEGIN EC PRIVATE KEY-----\\nMHc": {slog.LevelWarn, "config", "value: -----BEGIN EC (cut)"},
	} {
		level, part, text := parseLine(line)
		if level != want.level || part != want.part || text != want.text {
			t.Errorf("%q: got %v %q %q, want %+v", line, level, part, text, want)
		}
	}
	var got []string
	long := strings.Repeat("x", 3*lineMost)
	readLines(strings.NewReader("one\n\n"+long+"\ntwo\xff\nthree"), func(s string) { got = append(got, s) })
	if want := []string{"one", long[:lineMost], "two?", "three"}; !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func TestAllowance(t *testing.T) {
	now := time.Unix(1000, 0)
	var a allowance
	took := 0
	for range 3 * linesAtOnce {
		if _, ok := a.take(now); ok {
			took++
		}
	}
	if took != linesAtOnce {
		t.Errorf("%d lines at once", took)
	}
	now = now.Add(lineEvery)
	if dropped, ok := a.take(now); !ok || dropped != 2*linesAtOnce {
		t.Errorf("later: %v, %d left out", ok, dropped)
	}
	if _, ok := a.take(now); ok {
		t.Error("two more")
	}
	took = 0
	for range 100 {
		now = now.Add(lineEvery / 4)
		if _, ok := a.take(now); ok {
			took++
		}
	}
	if took < 24 || took > 26 {
		t.Errorf("%d lines in 25 times %v", took, lineEvery)
	}
}

func TestBootstrap(t *testing.T) {
	at := netip.MustParseAddrPort("127.0.0.1:8502")
	one, err := bootstrap(web, at, "/run/a.sock")
	again, _ := bootstrap(web, at, "/run/a.sock")
	if err != nil || !bytes.Equal(one, again) || !json.Valid(one) {
		t.Errorf("%v\n%s\n%s", err, one, again)
	}
	for _, other := range []func() ([]byte, error){
		func() ([]byte, error) { return bootstrap(db, at, "/run/a.sock") },
		func() ([]byte, error) { return bootstrap(web, netip.MustParseAddrPort("127.0.0.1:1"), "/run/a.sock") },
		func() ([]byte, error) { return bootstrap(web, at, "/run/b.sock") },
	} {
		if text, err := other(); err != nil || bytes.Equal(one, text) {
			t.Errorf("no difference (%v)", err)
		}
	}
	if strings.Contains(strings.ToLower(string(one)), "token") {
		t.Error("it speaks of a token")
	}
}

func TestParseFigures(t *testing.T) {
	text := `# TYPE envoy_a counter
envoy_a{cluster="x"} 3
envoy_a{} 4
# TYPE other gauge
other{} 1
`
	one, err := parseFigures([]byte(text), "p")
	two, _ := parseFigures([]byte(text), "q")
	if err != nil || len(one) != 1 || len(one["envoy_a"].Metric) != 2 {
		t.Fatalf("%v (%v)", one, err)
	}
	merge(one, two)
	if n := len(one["envoy_a"].Metric); n != 4 {
		t.Errorf("%d metrics", n)
	}
	if _, err := parseFigures([]byte("}"), "p"); err == nil {
		t.Error("nonsense is read")
	}
	if _, err := parseFigures(make([]byte, figuresMost+1), "p"); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("too much is read: %v", err)
	}
}

func TestParseClusters(t *testing.T) {
	got, err := parseClusters([]byte(`{"cluster_statuses":[{"name":"cadre-xds","host_statuses":[{}]},
		{"name":"db","added_via_api":true,"host_statuses":[
		{"address":{"socket_address":{"address":"127.50.1.1","port_value":20000}},"health_status":{"eds_health_status":"HEALTHY","failed_outlier_check":true}},
		{"address":{"pipe":{"path":"x"}},"health_status":{"eds_health_status":"HEALTHY"}}]}]}`))
	if err != nil || len(got) != 1 || !slices.Equal(got[0].Endpoints, []Endpoint{{Address: netip.MustParseAddrPort("127.50.1.1:20000"), Health: "HEALTHY"}}) {
		t.Errorf("%+v (%v)", got, err)
	}
	if _, err := parseClusters([]byte("OK")); err == nil {
		t.Error("nonsense is read")
	}
}
