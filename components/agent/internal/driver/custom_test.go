package driver

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cadre.dev/core/adapter"
	"cadre.dev/core/group"
)

// fakeAdapter serves the contract for a member whose state the test sets.
type fakeAdapter struct {
	mu       sync.Mutex
	member   adapter.Member                                                   // guarded by mu
	answer   func(calls int, path string, body []byte) (status int, text any) // guarded by mu; nil: 200
	requests []string                                                         // guarded by mu
	looked   func()                                                           // guarded by mu; after each observation that follows a request; nil: none
}

func (f *fakeAdapter) set(change func(f *fakeAdapter)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f)
}

func (f *fakeAdapter) made() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.requests)
}

func (f *fakeAdapter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	f.mu.Lock()
	defer f.mu.Unlock()
	if r.URL.Path == adapter.PathMember {
		_ = json.NewEncoder(w).Encode(f.member)
		if f.looked != nil && len(f.requests) > 0 {
			f.looked()
		}
		return
	}
	f.requests = append(f.requests, r.Method+" "+r.URL.Path+" "+string(body))
	status, text := 200, any(struct{}{})
	if f.answer != nil {
		status, text = f.answer(len(f.requests), r.URL.Path, body)
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(text)
}

func newFakeAdapter(t *testing.T, settings map[string]string) (*fakeAdapter, Driver) {
	t.Helper()
	yes := true
	f := &fakeAdapter{member: adapter.Member{
		Role: adapter.RoleLeader, Liveness: adapter.Alive, Ready: true, CaughtUp: &yes, Leader: "k-0", Epoch: 4,
		Voters: []string{"k-2", "k-0", "k-1"}, MemberIDs: map[string]string{"k-0": "a"}, Version: "1.2", DataFormat: "1.1", MayDisrupt: true,
	}}
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	return f, customAt(t, server.Listener.Addr().String(), settings, time.Minute)
}

// customAt is the driver of an adapter; a busy machine does not use up a budget of a minute.
func customAt(t *testing.T, address string, settings map[string]string, budget time.Duration) Driver {
	t.Helper()
	all := map[string]string{"http": address, "voters": "true"}
	maps.Copy(all, settings)
	vip := func(slot string) (netip.Addr, bool) { return netip.MustParseAddr("100.64.0.9"), slot != "k-9" }
	d, err := New(Config{Kind: group.WorkloadCustom, Settings: all, Self: "k-0", VIP: vip, Budget: budget})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { Close(d) })
	return d
}

func TestTheViewIsThatOfTheAdapter(t *testing.T) {
	f, d := newFakeAdapter(t, nil)
	v, err := d.Observe(t.Context())
	want := View{
		Role: RoleLeader, Liveness: LivenessAlive, Ready: true, CaughtUp: ptr(true), Leader: "k-0", Epoch: 4,
		Voters: []string{"k-0", "k-1", "k-2"}, MemberIDs: map[string]string{"k-0": "a"}, QuorumMember: true,
		Version: "1.2", DataFormat: "1.1", MayDisrupt: true,
	}
	if err != nil || !v.Equal(want) {
		t.Errorf("%+v, %v\nwant %+v", v, err, want)
	}
	// The adapter's own word is the only proof that no process listens.
	f.set(func(f *fakeAdapter) {
		f.member = adapter.Member{Role: adapter.RoleUnknown, Liveness: adapter.Refused, Message: "no broker listens", MayDisruptReason: "is down"}
	})
	v, err = d.Observe(t.Context())
	if err != nil || v.Liveness != LivenessRefused || v.Role != RoleUnknown || v.MayDisrupt || v.Message != "no broker listens" {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestABadAdapterIsBoundedAndNamed: Observe returns in every case, with an error that names the reason.
func TestABadAdapterIsBoundedAndNamed(t *testing.T) {
	good := `{"role":"none","liveness":"alive","ready":true,"may_disrupt":true}`
	says := func(text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }
	}
	status := func(code int, text string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code); _, _ = io.WriteString(w, text) }
	}
	flood := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 4096)); err != nil {
				return
			}
		}
	}
	drip := func(w http.ResponseWriter, r *http.Request) {
		for r.Context().Err() == nil {
			_, _ = io.WriteString(w, " ")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-r.Context().Done():
			case <-time.After(10 * time.Millisecond):
			}
		}
	}
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("a redirect was followed") }))
	defer elsewhere.Close()
	for want, handler := range map[string]http.HandlerFunc{
		"did not answer GET /v1/member in time": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"did not answer GET /v1/member":         drip,
		"has more than 65536 bytes":             flood,
		"status 302":                            func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, elsewhere.URL, http.StatusFound) },
		"status 404: it gives no reason":        http.NotFound,
		"status 503: starts [31m up":            status(503, `{"message":"starts\u001b[31m up"}`),
		"status 409: an election runs":          status(409, `{"message":"an election runs"}`),
		"status 422: not now":                   status(422, `{"message":"not now"}`),
		"status 204":                            status(204, ""),
		"unexpected EOF":                        says(""),
		"invalid character":                     says("role=leader"),
		`role: "" is unknown`:                   says("null"),
		"more data after the JSON value":        says(good + good),
		"force":                                 says(`{"role":"none","force":true}`),
		"Role":                                  says(`{"role":"none","Role":"leader"}`),
		`member_ids["k-1"]: is neither`:         says(`{"role":"follower","liveness":"alive","member_ids":{"k-1":"x"}}`),
		"nested deeper":                         says(strings.Repeat(`{"voters":`, 2) + strings.Repeat("[", 9000)),
		"more faults":                           says(`{"busy":[` + strings.Repeat(`"",`, 20000) + `""]}`),
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(handler)
			t.Cleanup(server.Close)
			budget := time.Minute
			if strings.HasPrefix(want, "did not answer") {
				budget = 200 * time.Millisecond
			}
			v, err := customAt(t, server.Listener.Addr().String(), nil, budget).Observe(t.Context())
			assertUnobserved(t, v, err, want)
		})
	}
}

// assertUnobserved: the error says why, and no View claims that the process was checked.
func assertUnobserved(t *testing.T, v View, err error, want string) {
	t.Helper()
	if !errors.Is(err, ErrTransient) || errors.Is(err, ErrBusy) || errors.Is(err, ErrUnsafe) || !v.Equal(View{}) {
		t.Fatalf("%+v, %v", v, err)
	}
	text := err.Error()
	if !strings.Contains(text, want) || !strings.Contains(text, "adapter") || strings.Contains(text, ErrTransient.Error()) {
		t.Errorf("reason %q, want %q", text, want)
	}
	if len(text) > adapter.MaxText || strings.ContainsAny(text, "\x1b\n") {
		t.Errorf("reason %q", text)
	}
}

// TestNoAdapterProvesNothing: its closed port says nothing about the workload's process.
func TestNoAdapterProvesNothing(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	address := server.Listener.Addr().String()
	server.Close()
	v, err := customAt(t, address, nil, time.Minute).Observe(t.Context())
	assertUnobserved(t, v, err, "no adapter listens at "+address)
}

// TestAnotherProtocolIsNoAnswer: neither bytes without HTTP nor endless headers.
func TestAnotherProtocolIsNoAnswer(t *testing.T) {
	for _, head := range []string{"SSH-2.0-x\r\n", "HTTP/1.1 200 OK\r\n" + strings.Repeat("A: "+strings.Repeat("a", 1000)+"\r\n", 100)} {
		listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer listener.Close() //nolint:errcheck // test
		go func() {
			for {
				conn, err := listener.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, head)
				_ = conn.Close()
			}
		}()
		v, err := customAt(t, listener.Addr().String(), nil, time.Minute).Observe(t.Context())
		assertUnobserved(t, v, err, "ask the adapter at")
	}
}

// TestAnswersThatChangeAllTheTimeMeanNothing, until they rest.
func TestAnswersThatChangeAllTheTimeMeanNothing(t *testing.T) {
	_, d := newFakeAdapter(t, nil)
	for i := range 2 * mostFlips {
		d.(*custom).flips.note(View{Epoch: uint64(i)}, time.Now().Add(time.Hour)) //nolint:forcetypeassert // was made here
	}
	v, err := d.Observe(t.Context())
	assertUnobserved(t, v, err, "the adapter changes its answer")
	var seen flips
	start := time.Now()
	for i := range 3 * mostFlips {
		if why := seen.note(View{Epoch: uint64(i)}, start); (why != "") != (i > mostFlips) {
			t.Errorf("change %d: %q", i, why)
		}
	}
	last := View{Epoch: 3*mostFlips - 1}
	if seen.note(last, start.Add(flipWindow-1)) == "" || seen.note(last, start.Add(flipWindow)) != "" {
		t.Error("the answers rest, and mean something after the window alone")
	}
}

func TestAHandOverIsConfirmed(t *testing.T) {
	f, d := newFakeAdapter(t, nil)
	f.set(func(f *fakeAdapter) {
		f.answer = func(int, string, []byte) (int, any) {
			f.member.Role, f.member.Leader, f.member.Epoch = adapter.RoleFollower, "k-2", 5
			return 200, adapter.Transferred{Moved: true, Leader: "k-1", Epoch: 5} // another one was elected
		}
	})
	got, err := d.Transfer(t.Context(), TransferRequest{ExpectedLeader: "k-0", Candidates: []string{"k-1"}})
	if err != nil || got != (Transferred{Moved: true, Leader: "k-2", Epoch: 5}) {
		t.Errorf("%+v, %v", got, err)
	}
	want := []string{`POST /v1/transfer {"expected_leader":"k-0","candidates":["k-1"]}`}
	if made := f.made(); !slices.Equal(made, want) {
		t.Errorf("asked %q", made)
	}
	// The second call finds that the other leads already, and asks nothing.
	got, err = d.Transfer(t.Context(), TransferRequest{ExpectedLeader: "k-0", Candidates: []string{"k-1"}})
	if err != nil || got.Moved || got.Leader != "k-2" || len(f.made()) != 1 {
		t.Errorf("%+v, %v after %q", got, err, f.made())
	}
}

// TestAHandOverIsConfirmedThroughABadAnswer: one answer that is refused ends no hand-over.
func TestAHandOverIsConfirmedThroughABadAnswer(t *testing.T) {
	f, d := newFakeAdapter(t, nil)
	f.set(func(f *fakeAdapter) {
		f.answer = func(int, string, []byte) (int, any) {
			f.member.Role = "no role"
			return 200, adapter.Transferred{Moved: true, Leader: "k-1", Epoch: 5}
		}
		f.looked = func() { f.member.Role, f.member.Leader, f.member.Epoch = adapter.RoleFollower, "k-1", 5 }
	})
	got, err := d.Transfer(t.Context(), TransferRequest{ExpectedLeader: "k-0", Candidates: []string{"k-1"}})
	if err != nil || got != (Transferred{Moved: true, Leader: "k-1", Epoch: 5}) {
		t.Errorf("%+v, %v", got, err)
	}
	// Before a hand-over, such an answer means that nothing is asked.
	f.set(func(f *fakeAdapter) { f.member.Role, f.looked = "no role", nil })
	if _, err = d.Transfer(t.Context(), TransferRequest{ExpectedLeader: "k-0", Candidates: []string{"k-1"}}); len(f.made()) != 1 {
		t.Errorf("asked %q", f.made())
	}
	assertUnobserved(t, View{}, err, `role: "no role" is unknown`)
}

// TestAHandOverThatDidNotHappen: the adapter's answer alone is none.
func TestAHandOverThatDidNotHappen(t *testing.T) {
	r := TransferRequest{ExpectedLeader: "k-0", Candidates: []string{"k-1"}}
	for want, c := range map[string]struct {
		answer func(f *fakeAdapter) (int, any)
		class  error
	}{
		"then leader \"k-0\" in epoch 4": {func(*fakeAdapter) (int, any) { return 200, adapter.Transferred{Moved: true, Leader: "k-1"} }, ErrTransient},
		"then leader \"k-1\" in epoch 4": {func(f *fakeAdapter) (int, any) {
			f.member.Role, f.member.Leader = adapter.RoleFollower, "k-1" // in the same epoch nothing moved
			return 200, adapter.Transferred{Moved: true, Leader: "k-1"}
		}, ErrTransient},
		"leader: is empty": {func(*fakeAdapter) (int, any) { return 200, struct{}{} }, ErrTransient},
		"no role": {func(f *fakeAdapter) (int, any) {
			f.member.Role = "no role"
			return 200, adapter.Transferred{Moved: true, Leader: "k-1"}
		}, ErrTransient},
		"an election runs":     {func(*fakeAdapter) (int, any) { return 409, adapter.Error{Message: "an election runs"} }, ErrBusy},
		"k-1 is behind":        {func(*fakeAdapter) (int, any) { return 422, adapter.Error{Message: "k-1 is behind"} }, ErrUnsafe},
		"status 500: no idea":  {func(*fakeAdapter) (int, any) { return 500, adapter.Error{Message: "no idea"} }, ErrTransient},
		"is refused: ":         {func(*fakeAdapter) (int, any) { return 200, map[string]any{"\x1b[31m": 1} }, ErrTransient},
		"status 429: it gives": {func(*fakeAdapter) (int, any) { return 429, "busy" }, ErrTransient},
	} {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			f, d := newFakeAdapter(t, nil)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			looks := 0
			f.set(func(f *fakeAdapter) {
				f.answer = func(int, string, []byte) (int, any) { return c.answer(f) }
				f.looked = func() {
					if looks++; looks == 3 { // two of them were read
						cancel()
					}
				}
			})
			got, err := d.Transfer(ctx, r)
			if !errors.Is(err, c.class) || !strings.Contains(fmt.Sprint(err), want) || strings.Contains(fmt.Sprint(err), "\x1b") || got != (Transferred{}) {
				t.Errorf("%+v, %v", got, err)
			}
		})
	}
	f, d := newFakeAdapter(t, nil)
	for _, r := range []TransferRequest{{ExpectedLeader: "k-1", Candidates: []string{"k-2"}}, {ExpectedLeader: "k-0"}} {
		if _, err := d.Transfer(t.Context(), r); !errors.Is(err, ErrUnsafe) || len(f.made()) > 0 {
			t.Errorf("%+v: %v, asked %q", r, err, f.made())
		}
	}
}

func TestADrainWaitsForABusyWorkload(t *testing.T) {
	f, d := newFakeAdapter(t, nil)
	f.set(func(f *fakeAdapter) {
		f.answer = func(calls int, _ string, _ []byte) (int, any) {
			return []int{409, 200, 200, 422}[calls-1], struct{}{}
		}
	})
	if err := d.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.CancelDrain(t.Context()); err != nil {
		t.Error(err)
	}
	if err := d.Drain(t.Context()); !errors.Is(err, ErrUnsafe) {
		t.Error(err)
	}
	want := []string{"POST /v1/drain {}", "POST /v1/drain {}", "DELETE /v1/drain {}", "POST /v1/drain {}"}
	if made := f.made(); !slices.Equal(made, want) {
		t.Errorf("asked %q", made)
	}
	f.set(func(f *fakeAdapter) {
		f.answer = func(int, string, []byte) (int, any) { return 409, adapter.Error{Message: "moves"} }
	})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := d.Drain(ctx); !errors.Is(err, ErrTransient) {
		t.Error(err)
	}
}

func TestTheSetIsChangedAsTheSettingSays(t *testing.T) {
	change := func(do group.SetVerb, slot string) group.SetChange {
		return group.SetChange{Do: do, Slot: slot, Member: map[group.SetVerb]string{group.SetPromote: "p", group.SetRemove: "r"}[do]}
	}
	add, promote, remove := change(group.SetAdd, "k-3"), change(group.SetPromote, "k-3"), change(group.SetRemove, "k-1")
	for set, want := range map[string][]string{
		"none":    nil,
		"changes": {`POST /v1/set {"do":"remove","slot":"k-1","member":"r"}`},
		"adds": {
			`POST /v1/set {"do":"add","slot":"k-3","address":"100.64.0.9"}`,
			`POST /v1/set {"do":"promote","slot":"k-3","member":"p"}`,
			`POST /v1/set {"do":"remove","slot":"k-1","member":"r"}`,
		},
	} {
		f, d := newFakeAdapter(t, map[string]string{"set": set})
		for _, c := range []group.SetChange{add, promote, remove} {
			err := Change(t.Context(), d, c)
			if refused := set == "none" && c == remove; errors.Is(err, ErrUnsafe) != refused || err != nil && !refused {
				t.Errorf("%s %+v: %v", set, c, err)
			}
		}
		if made := f.made(); !slices.Equal(made, want) {
			t.Errorf("%s: asked %q", set, made)
		}
	}
	f, d := newFakeAdapter(t, map[string]string{"set": "adds"})
	if err := Change(t.Context(), d, change(group.SetAdd, "k-9")); !errors.Is(err, ErrTransient) || !strings.Contains(err.Error(), "address of k-9") {
		t.Error(err)
	}
	if err := Change(t.Context(), d, change(group.SetRemove, "k-0")); !errors.Is(err, ErrUnsafe) {
		t.Error(err)
	}
	if made := f.made(); len(made) > 0 {
		t.Errorf("asked %q", made)
	}
	// A leader that hands nothing over takes itself out: no other member can lead before it goes.
	f, d = newFakeAdapter(t, map[string]string{"set": "adds", "hand_over": "stop"})
	if err := Change(t.Context(), d, change(group.SetRemove, "k-0")); err != nil || len(f.made()) != 1 {
		t.Errorf("%v, asked %q", err, f.made())
	}
}
