package driver

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// fakePatroni is three members that share one cluster. The default is a healthy cluster led by db-0
// on timeline 3; tests set only the differences.
type fakePatroni struct {
	mu       sync.Mutex
	status   map[string]map[string]any // guarded by mu; GET /patroni by member
	cluster  map[string]any            // guarded by mu; GET /cluster
	config   map[string]any            // guarded by mu; GET /config
	switches int                       // guarded by mu
	asked    string                    // guarded by mu; the candidate of the last switchover
	reads    int                       // guarded by mu; of GET /cluster
	silent   map[string]bool           // guarded by mu; "db-0 /cluster" gets no answer
	denies   int                       // guarded by mu; the status of every answer; 0: none is denied
	// reply of POST /switchover; onSwitch runs before it.
	code     int
	text     string
	onSwitch func(*fakePatroni)
	port     uint16
	vips     map[string]netip.Addr
}

func newFakePatroni(t *testing.T) *fakePatroni {
	t.Helper()
	f := &fakePatroni{code: 200, text: `Successfully switched over to "db-1"`, vips: map[string]netip.Addr{}}
	f.status = map[string]map[string]any{}
	var members []any
	for i, name := range []string{"db-0", "db-1", "db-2"} {
		f.vips[name] = subnet(t, 9)(i)
		role := "replica"
		s := map[string]any{
			"state": "running", "role": role, "timeline": 3, "replication_state": "streaming",
			"xlog":    map[string]any{"received_location": 1000, "replayed_location": 1000},
			"patroni": map[string]any{"version": "4.1.5", "scope": "demo", "name": name},
		}
		if i == 0 {
			role = "leader"
			s["role"], s["xlog"] = "primary", map[string]any{"location": 1000}
			s["replication"] = []any{
				map[string]any{"application_name": "db-1", "state": "streaming"},
				map[string]any{"application_name": "db-2", "state": "streaming"},
			}
		}
		f.status[name] = s
		members = append(members, map[string]any{"name": name, "role": role, "state": "running"})
	}
	f.cluster = map[string]any{"members": members}
	for i, name := range []string{"db-0", "db-1", "db-2"} {
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.serve(name, w, r) }))
		_ = server.Listener.Close()
		ln, err := listenOn(f.vips[name], f.port)
		if err != nil {
			t.Fatal(err)
		}
		server.Listener = ln
		if i == 0 {
			f.port = netip.MustParseAddrPort(ln.Addr().String()).Port()
		}
		server.Start()
		t.Cleanup(server.Close)
	}
	return f
}

func (f *fakePatroni) serve(name string, w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.silent[name+" "+r.URL.Path] || f.silent[name] {
		f.mu.Unlock()
		<-r.Context().Done()
		f.mu.Lock()
		return
	}
	if f.denies != 0 {
		w.WriteHeader(f.denies)
		return
	}
	var answer any = f.status[name]
	switch r.URL.Path {
	case "/cluster":
		answer = f.cluster
		f.reads++
	case "/primary":
		if f.member(name)["role"] != "leader" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	case "/config":
		answer = f.config
	case "/checkpoint":
		w.WriteHeader(f.code)
		_, _ = w.Write([]byte(f.text))
		return
	case "/switchover":
		f.switches++
		var body struct{ Candidate string }
		_ = json.NewDecoder(r.Body).Decode(&body)
		f.asked = body.Candidate
		if f.onSwitch != nil {
			f.onSwitch(f)
		}
		w.WriteHeader(f.code)
		_, _ = w.Write([]byte(f.text))
		return
	}
	_ = json.NewEncoder(w).Encode(answer)
}

func (f *fakePatroni) member(name string) map[string]any {
	for _, m := range f.cluster["members"].([]any) {
		if m := m.(map[string]any); m["name"] == name {
			return m
		}
	}
	return nil
}

// promote makes name the leader of the next timeline.
func (f *fakePatroni) promote(name string) {
	for _, m := range f.cluster["members"].([]any) {
		m := m.(map[string]any)
		m["role"] = "replica"
		if m["name"] == name {
			m["role"] = "leader"
		}
	}
	for member, s := range f.status {
		s["role"] = "replica"
		if member == name {
			s["role"], s["timeline"] = "primary", 4
		}
	}
}

func (f *fakePatroni) driver(t *testing.T, self string, settings map[string]string) *patroni {
	t.Helper()
	if settings == nil {
		settings = map[string]string{}
	}
	settings["port"] = strconv.Itoa(int(f.port))
	d, err := New(Config{Kind: "patroni", Self: self, Local: f.vips[self], Settings: settings,
		VIP: func(slot string) (netip.Addr, bool) { a, ok := f.vips[slot]; return a, ok }})
	if err != nil {
		t.Fatal(err)
	}
	return d.(*patroni)
}

func TestPatroniSwitchover(t *testing.T) {
	promote := func(name string) func(*fakePatroni) { return func(f *fakePatroni) { f.promote(name) } }
	for name, tc := range map[string]struct {
		change func(*fakePatroni)
		code   int
		text   string
		on     func(*fakePatroni)
		want   Transferred
		err    error
		calls  int
	}{
		"as asked":                           {code: 200, on: promote("db-1"), want: Transferred{true, "db-1", 4}, calls: 1},
		"another replica won":                {code: 200, text: `Switched over to "db-2" instead of "db-1"`, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1},
		"status unknown but done":            {code: 503, text: "Switchover status unknown", on: promote("db-1"), want: Transferred{true, "db-1", 4}, calls: 1},
		"refused since another member leads": {code: 412, text: "leader name does not match", on: promote("db-2"), want: Transferred{false, "db-2", 4}, calls: 1},
		"no good candidates":                 {code: 412, text: "switchover is not possible: no good candidates have been found", err: ErrUnsafe, calls: 2},
		"failed":                             {code: 503, text: "Switchover failed", err: ErrBusy, calls: 2},
		"first candidate lags": {code: 200, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1,
			change: func(f *fakePatroni) { f.status["db-1"]["xlog"] = map[string]any{"replayed_location": -(64 << 20)} }},
		"only the synchronous one may lead": {code: 200, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1,
			change: func(f *fakePatroni) { f.member("db-2")["role"] = "sync_standby" }},
		"the first one is refused for the moment": {code: 503, text: "Switchover failed", want: Transferred{true, "db-2", 4}, calls: 2,
			on: func(f *fakePatroni) {
				if f.asked == "db-2" {
					f.code = 200
					f.promote("db-2")
				}
			}},
		"quorum mode, and the first one is nosync": {code: 200, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1,
			change: func(f *fakePatroni) {
				f.config = map[string]any{"synchronous_mode": "quorum"}
				f.member("db-1")["tags"], f.member("db-2")["role"] = map[string]any{"nosync": true}, "quorum_standby"
			}},
		"quorum mode while the quorum is empty": {code: 200, on: promote("db-1"), want: Transferred{true, "db-1", 4}, calls: 1,
			change: func(f *fakePatroni) { f.config = map[string]any{"synchronous_mode": "quorum"} }},
		"synchronous mode while no replica is synchronous": {err: ErrUnsafe,
			change: func(f *fakePatroni) { f.config = map[string]any{"synchronous_mode": "on"} }},
		"the first one is too far behind for Patroni": {code: 200, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1,
			change: func(f *fakePatroni) {
				f.config = map[string]any{"maximum_lag_on_failover": 100}
				f.status["db-1"]["xlog"] = map[string]any{"received_location": 899, "replayed_location": 899}
			}},
		"the first one replicates from the second": {code: 200, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1,
			change: func(f *fakePatroni) { f.member("db-1")["tags"] = map[string]any{"replicatefrom": "db-2"} }},
		"the first one has priority 0": {code: 200, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1,
			change: func(f *fakePatroni) { f.member("db-1")["tags"] = map[string]any{"failover_priority": 0} }},
		"no candidate qualifies": {err: ErrUnsafe, change: func(f *fakePatroni) { f.status["db-0"]["replication"] = nil }},
		"backup runs":            {err: ErrBusy, change: func(f *fakePatroni) { f.status["db-0"]["replication"] = []any{map[string]any{"state": "backup"}} }},
		"no leader":              {err: ErrTransient, change: func(f *fakePatroni) { f.member("db-0")["role"] = "replica" }},
		"is moved already":       {want: Transferred{false, "db-1", 3}, change: func(f *fakePatroni) { f.member("db-0")["role"], f.member("db-1")["role"] = "replica", "leader" }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakePatroni(t)
			if tc.change != nil {
				tc.change(f)
			}
			f.code, f.text, f.onSwitch = tc.code, tc.text, tc.on
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			got, err := f.driver(t, "db-0", nil).Transfer(ctx, TransferRequest{ExpectedLeader: "db-0", Candidates: []string{"db-1", "db-2"}})
			if got != tc.want || !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("transfer = %+v, %v; want %+v, %v", got, err, tc.want, tc.err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.switches != tc.calls {
				t.Errorf("%d switchovers were asked for, want %d", f.switches, tc.calls)
			}
		})
	}
}

// byPrepared is a request whose candidate Prepare chose in the healthy cluster.
func byPrepared(t *testing.T, f *fakePatroni, p *patroni) TransferRequest {
	t.Helper()
	r, err := Prepare(t.Context(), p, TransferRequest{ExpectedLeader: "db-0", Candidates: []string{"db-1", "db-2"}})
	if err != nil || r.Chosen != (Choice{"db-1", 3}) {
		t.Fatalf("prepare = %+v, %v; want db-1 on timeline 3", r.Chosen, err)
	}
	return r
}

// TestPatroniTakesThePreparedCandidate: Transfer takes it without another read of the cluster's
// view, while it can still take over. After a change since, the driver or Patroni rejects the
// candidate, and the driver chooses another.
func TestPatroniTakesThePreparedCandidate(t *testing.T) {
	promote := func(name string) func(*fakePatroni) { return func(f *fakePatroni) { f.promote(name) } }
	// refuses makes Patroni reject the first candidate; then the next takes over.
	refuses := func(next string) func(*fakePatroni) {
		return func(f *fakePatroni) {
			f.code, f.text = 412, "candidate name does not match with sync_standby"
			if f.switches > 1 {
				f.code = 200
				f.promote(next)
			}
		}
	}
	lags := func(f *fakePatroni) { f.status["db-1"]["xlog"] = map[string]any{"replayed_location": -(64 << 20)} }
	for name, tc := range map[string]struct {
		change func(*fakePatroni) // after Prepare
		edit   func(*TransferRequest)
		on     func(*fakePatroni)
		want   Transferred
		err    error
		calls  int
		reads  int // of the cluster's view, by Transfer
	}{
		"as prepared": {on: promote("db-1"), want: Transferred{true, "db-1", 4}, calls: 1},
		"it lags":     {change: lags, on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1, reads: 1},
		"it does not answer": {on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1, reads: 1,
			change: func(f *fakePatroni) { delete(f.vips, "db-1") }},
		"it streams no more": {on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1, reads: 1,
			change: func(f *fakePatroni) {
				f.status["db-0"]["replication"] = []any{map[string]any{"application_name": "db-2", "state": "streaming"}}
			}},
		"it is on another timeline": {on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1, reads: 1,
			change: func(f *fakePatroni) { f.status["db-1"]["timeline"] = 2 }},
		"another one is synchronous": {on: refuses("db-2"), want: Transferred{true, "db-2", 4}, calls: 2, reads: 2,
			change: func(f *fakePatroni) { f.member("db-2")["role"] = "sync_standby" }},
		"Patroni refuses it, and the view shows no reason": {on: refuses("db-2"), want: Transferred{true, "db-2", 4}, calls: 2, reads: 2},
		"no candidate can any more": {err: ErrUnsafe, reads: 1,
			change: func(f *fakePatroni) { f.status["db-0"]["replication"] = nil }},
		"a backup runs": {err: ErrBusy, reads: 1,
			change: func(f *fakePatroni) {
				f.status["db-0"]["replication"] = append(f.status["db-0"]["replication"].([]any), map[string]any{"state": "backup"})
			}},
		"another member leads": {want: Transferred{false, "db-2", 3}, reads: 1,
			change: func(f *fakePatroni) {
				f.promote("db-2")
				f.status["db-0"]["timeline"] = 3
			}},
		"it led, lost it and leads again": {on: promote("db-1"), err: nil, want: Transferred{true, "db-1", 7}, calls: 1, reads: 1,
			change: func(f *fakePatroni) {
				for _, s := range f.status {
					s["timeline"] = 6
				}
			}},
		"it is no candidate": {on: promote("db-2"), want: Transferred{true, "db-2", 4}, calls: 1, reads: 1,
			edit: func(r *TransferRequest) { r.Candidates = []string{"db-2"} }},
		"another leader is expected": {err: ErrUnsafe, reads: 1,
			edit: func(r *TransferRequest) { r.ExpectedLeader = "db-2" }},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakePatroni(t)
			p := f.driver(t, "db-0", nil)
			r := byPrepared(t, f, p)
			f.mu.Lock()
			if tc.change != nil {
				tc.change(f)
			}
			f.reads, f.onSwitch = 0, tc.on
			if tc.want.Epoch == 7 {
				f.onSwitch = func(f *fakePatroni) { tc.on(f); f.status["db-1"]["timeline"] = 7 }
			}
			f.mu.Unlock()
			if tc.edit != nil {
				tc.edit(&r)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			got, err := p.Transfer(ctx, r)
			if got != tc.want || !errors.Is(err, tc.err) || (err == nil) != (tc.err == nil) {
				t.Errorf("transfer = %+v, %v; want %+v, %v", got, err, tc.want, tc.err)
			}
			f.mu.Lock()
			defer f.mu.Unlock()
			if tc.want.Moved && f.asked != tc.want.Leader {
				t.Errorf("%s was asked for, want %s", f.asked, tc.want.Leader)
			}
			if f.switches != tc.calls || f.reads != tc.reads {
				t.Errorf("%d switchovers and %d reads of the cluster, want %d and %d", f.switches, f.reads, tc.calls, tc.reads)
			}
		})
	}
}

// TestPatroniPrepareRefuses the same requests as Transfer, before clients wait.
func TestPatroniPrepareRefuses(t *testing.T) {
	f := newFakePatroni(t)
	f.status["db-0"]["replication"] = nil
	r := TransferRequest{ExpectedLeader: "db-0", Candidates: []string{"db-1"}}
	got, err := Prepare(t.Context(), f.driver(t, "db-0", nil), r)
	if !errors.Is(err, ErrUnsafe) || got.Chosen != (Choice{}) || f.switches != 0 {
		t.Errorf("prepare = %+v, %v; want ErrUnsafe", got, err)
	}
	f.member("db-0")["role"], f.member("db-1")["role"] = "replica", "leader"
	if got, err := Prepare(t.Context(), f.driver(t, "db-0", nil), r); err != nil || got.Chosen != (Choice{}) {
		t.Errorf("prepare where another leads = %+v, %v; want no choice", got, err)
	}
}

func TestPatroniCheckpoint(t *testing.T) {
	for name, tc := range map[string]struct {
		code int
		says string // "": no error
	}{
		"done":             {code: 200},
		"not this Patroni": {code: 501},
		"not this path":    {code: 404},
		"failed":           {code: 503, says: "status 503: not accessible"},
		"not allowed":      {code: 401, says: "status 401"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakePatroni(t)
			f.code, f.text = tc.code, "not accessible"
			r, err := Prepare(t.Context(), f.driver(t, "db-0", nil), TransferRequest{ExpectedLeader: "db-0", Candidates: []string{"db-1"}})
			if tc.says == "" && err != nil || tc.says != "" && (err == nil || !strings.Contains(err.Error(), tc.says)) {
				t.Errorf("prepare = %v, want an error with %q", err, tc.says)
			}
			if r.Chosen.Candidate != "db-1" {
				t.Errorf("without a checkpoint a candidate is chosen: %+v", r)
			}
		})
	}
}

// TestADriverWithNothingToPrepare leaves the request unchanged.
func TestADriverWithNothingToPrepare(t *testing.T) {
	r := TransferRequest{ExpectedLeader: "a", Candidates: []string{"b"}}
	for name, d := range map[string]Driver{"none": none{}, "etcd": &etcd{}, "consul": &consul{}} {
		if got, err := Prepare(t.Context(), d, r); err != nil || !reflect.DeepEqual(got, r) {
			t.Errorf("%s: prepare = %+v, %v", name, got, err)
		}
	}
}

func TestSettingsAreChecked(t *testing.T) {
	for name, tc := range map[string]struct {
		kind     string
		settings map[string]string
		want     string
	}{
		"unknown kind":           {"mysql", nil, "consul, custom, etcd, none, patroni"},
		"none has no settings":   {"none", map[string]string{"port": "1"}, "port"},
		"patroni unknown":        {"patroni", map[string]string{"prot": "1", "force": "x"}, `"prot"`},
		"patroni port":           {"patroni", map[string]string{"port": "0"}, "1 to 65535"},
		"patroni lag":            {"patroni", map[string]string{"max_lag_bytes": "1MB"}, "max_lag_bytes"},
		"consul address":         {"consul", map[string]string{"http_addr": "localhost"}, "host:port"},
		"etcd port":              {"etcd", map[string]string{"client_port": "x"}, "client_port"},
		"etcd part of TLS":       {"etcd", map[string]string{"cert_file": "/x"}, "without ca_file, key_file"},
		"patroni part of TLS":    {"patroni", map[string]string{"cert_file": "/x"}, "without ca_file, key_file"},
		"etcd missing authority": {"etcd", map[string]string{"ca_file": "/no/x", "cert_file": "/no/y", "key_file": "/no/z"}, "ca_file"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := New(Config{Kind: tc.kind, Settings: tc.settings, Self: "a"})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("New = %v, want %q in it", err, tc.want)
			}
		})
	}
}

// TestASteadyClusterIsNotReadAgain: the cluster view makes Patroni read Consul. While the member
// and its leader report no change, one view serves several looks; a change is seen at once.
func TestASteadyClusterIsNotReadAgain(t *testing.T) {
	f := newFakePatroni(t)
	p := f.driver(t, "db-1", nil)
	observe := func() (View, int) {
		t.Helper()
		f.mu.Lock()
		before := f.reads
		f.mu.Unlock()
		v, err := p.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		return v, f.reads - before
	}
	first, reads := observe()
	if reads != 1 || first.Leader != "db-0" || !first.MayDisrupt {
		t.Fatalf("first: %d reads, %+v", reads, first)
	}
	if again, reads := observe(); reads != 0 || !again.Equal(first) {
		t.Errorf("again: %d reads, %+v", reads, again)
	}
	for name, change := range map[string]func(){
		"another timeline":           func() { f.status["db-1"]["timeline"] = 4 },
		"the leader leads no more":   func() { f.status["db-0"]["role"] = "replica" },
		"the leader streams no more": func() { f.status["db-0"]["replication"] = []any{} },
		"paused":                     func() { f.status["db-1"]["pause"] = true },
		"starting":                   func() { f.status["db-1"]["state"] = "starting" },
	} {
		t.Run(name, func(t *testing.T) {
			f.mu.Lock()
			kept := map[string]map[string]any{}
			for member, s := range f.status {
				kept[member] = map[string]any{}
				for k, v := range s {
					kept[member][k] = v
				}
			}
			change()
			f.mu.Unlock()
			if _, reads := observe(); reads != 1 {
				t.Errorf("%d reads, want a fresh one", reads)
			}
			f.mu.Lock()
			f.status = kept
			f.mu.Unlock()
			if v, _ := observe(); !v.Equal(first) {
				t.Errorf("afterwards %+v", v)
			}
			if _, reads := observe(); reads != 0 {
				t.Errorf("afterwards %d reads", reads)
			}
		})
	}
	leads := f.driver(t, "db-0", nil)
	for range 2 {
		if _, err := leads.Observe(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if leads.seen.at != (time.Time{}) {
		t.Error("the leader does not ask each time whether it has the lock")
	}
	p.mu.Lock()
	p.seen.at = p.seen.at.Add(-clusterFor)
	p.mu.Unlock()
	if _, reads := observe(); reads != 1 {
		t.Errorf("a view that is old stood in for a fresh one: %d reads", reads)
	}
}
