package drivercheck

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"cadre.dev/core/adapter"
	"cadre.dev/core/strictjson"
)

// cluster is a workload of three voters, behind the adapter of its member k-0. The zero value of flaws
// has none.
type cluster struct {
	mu       sync.Mutex
	leader   string   // guarded by mu
	epoch    uint64   // guarded by mu
	learners []string // guarded by mu
	drained  bool     // guarded by mu
	asked    int      // guarded by mu
	flaws
}

// flaws of an adapter.
type flaws struct {
	takesUnknown, takesAll, takesAnyCandidate, takesAnyLeader, movesTwice bool
	drainsOnce, removesAnyone, votesAtOnce, chatty                        bool
	member                                                                func(m *adapter.Member)
}

func (c *cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	answer := func(status int, v any) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(v)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, adapter.MaxBody+1))
	if err != nil || len(body) > adapter.MaxBody && !c.takesAll {
		answer(413, adapter.Error{Message: "too long"})
		return
	}
	read := func(v interface{ Check() error }) bool {
		err := strictjson.Unmarshal(body, v)
		if c.takesUnknown {
			err = json.Unmarshal(body, v)
		}
		if err == nil {
			err = v.Check()
		}
		if err != nil && !c.takesAll {
			answer(400, adapter.Error{Message: err.Error()})
			return false
		}
		return true
	}
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/member":
		answer(200, c.view())
	case "POST /v1/transfer":
		var q adapter.TransferRequest
		if read(&q) {
			answer(c.transfer(q))
		}
	case "POST /v1/drain", "DELETE /v1/drain":
		drain := r.Method == http.MethodPost
		if c.drainsOnce && c.drained == drain {
			answer(422, adapter.Error{Message: "is so already"})
			return
		}
		c.drained = drain
		answer(200, struct{}{})
	case "POST /v1/set":
		var q adapter.SetRequest
		if read(&q) {
			answer(c.change(q))
		}
	default:
		answer(404, adapter.Error{Message: "no such path"})
	}
}

func (c *cluster) view() adapter.Member {
	yes := true
	m := adapter.Member{
		Role: adapter.RoleFollower, Liveness: adapter.Alive, Ready: true, CaughtUp: &yes, Leader: c.leader, Epoch: c.epoch, MayDisrupt: true,
		Voters: []string{"k-0", "k-1", "k-2"}, Learners: c.learners, MemberIDs: map[string]string{"k-0": "a", "k-1": "b", "k-2": "c"},
	}
	if c.removesAnyone && c.drained {
		m.Voters, m.MemberIDs = []string{"k-0", "k-2"}, nil
	}
	if c.leader == "k-0" {
		m.Role = adapter.RoleLeader
	}
	if c.asked++; c.chatty {
		m.Fault = fmt.Sprintf("answer number %d", c.asked)
	}
	if c.member != nil {
		c.member(&m)
	}
	return m
}

func (c *cluster) transfer(q adapter.TransferRequest) (int, any) {
	switch {
	case q.ExpectedLeader != "k-0" && c.leader == "k-0" && !c.takesAnyLeader:
		return 422, adapter.Error{Message: "k-0 leads"}
	case c.leader != "k-0" && c.movesTwice:
		c.epoch++
		return 200, adapter.Transferred{Moved: true, Leader: c.leader}
	case c.leader != "k-0":
		return 200, adapter.Transferred{Leader: c.leader, Epoch: c.epoch}
	}
	for _, one := range q.Candidates {
		if slices.Contains([]string{"k-1", "k-2"}, one) || c.takesAnyCandidate {
			c.leader = "k-1"
			c.epoch++
			return 200, adapter.Transferred{Moved: true, Leader: c.leader, Epoch: c.epoch}
		}
	}
	return 422, adapter.Error{Message: "no candidate"}
}

func (c *cluster) change(q adapter.SetRequest) (int, any) {
	listed := slices.Contains(c.learners, q.Slot)
	switch {
	case q.Do == adapter.DoAdd && !listed:
		c.learners = append(c.learners, q.Slot)
	case q.Do == adapter.DoPromote && !c.votesAtOnce:
		return 409, adapter.Error{Message: "has not started"}
	case q.Do == adapter.DoRemove && c.removesAnyone && q.Member != "":
		c.drained = true // stands for a set without the member
	case q.Do == adapter.DoRemove:
		c.learners = slices.DeleteFunc(c.learners, func(one string) bool { return one == q.Slot })
	}
	return 200, struct{}{}
}

// check runs the command against c.
func checkCommand(t *testing.T, c *cluster, args ...string) (code int, out string) {
	t.Helper()
	server := httptest.NewServer(c)
	defer server.Close()
	var stdout, stderr bytes.Buffer
	args = append([]string{"check", server.URL, "-slot", "k-0", "-voters", "-set", "adds", "-transfer", "-drain", "-change", "k-3", "-budget", "1m"}, args...)
	code = Command(t.Context(), args, func(string) string { return "" }, &stdout, &stderr)
	return code, stdout.String() + stderr.String()
}

func TestASoundAdapterPasses(t *testing.T) {
	code, out := checkCommand(t, &cluster{leader: "k-0", epoch: 3})
	if code != 0 || strings.Count(out, "ok  ") != 17 || !strings.Contains(out, "17 passed, 0 failed, 0 skipped") {
		t.Errorf("%d:\n%s", code, out)
	}
	code, out = checkCommand(t, &cluster{leader: "k-1", epoch: 3}, "-json")
	if code != 0 || strings.Count(out, `"outcome":"skipped"`) != 7 || !strings.Contains(out, "run it at k-1") {
		t.Errorf("%d:\n%s", code, out)
	}
}

// TestEachFlawFailsItsCheck, with the expected behaviour and the way out.
func TestEachFlawFailsItsCheck(t *testing.T) {
	for name, f := range map[string]struct {
		flaws flaws
		says  string
	}{
		"member answers":                             {flaws{member: func(m *adapter.Member) { m.Role, m.MayDisrupt = "boss", false }}, `role: "boss" is unknown`},
		"member is alive and has a role":             {flaws{member: func(m *adapter.Member) { m.CaughtUp = nil }}, "never available"},
		"answers repeat":                             {flaws{chatty: true}, "fault was"},
		"an unknown field is refused":                {flaws{takesUnknown: true}, "422"},
		"a request that is no JSON is refused":       {flaws{takesAll: true}, "422"},
		"an oversized request is refused":            {flaws{takesAll: true}, "422"},
		"an unknown change of the set is refused":    {flaws{takesAll: true}, "200"},
		"a candidate that does not exist is refused": {flaws{takesAnyCandidate: true}, "want a refusal"},
		"another expected leader is refused":         {flaws{takesAnyLeader: true}, "want a refusal"},
		"a repeated hand-over is success":            {flaws{movesTwice: true}, `"moved\":true`},
		"drain and undrain may be repeated":          {flaws{drainsOnce: true}, "drain 2"},
		"another incarnation stays":                  {flaws{removesAnyone: true}, "k-1 in the set: gone"},
		"a member is added and removed":              {flaws{votesAtOnce: true}, "never started"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			code, out := checkCommand(t, &cluster{leader: "k-0", epoch: 3, flaws: f.flaws})
			_, said, found := strings.Cut(out, "FAIL  "+name+": ")
			said, _, _ = strings.Cut(said, "\nok")
			if code != 1 || !found || !strings.Contains(said, f.says) || !strings.Contains(said, "expected: ") || !strings.Contains(said, "way out:  ") {
				t.Errorf("%d:\n%s", code, out)
			}
		})
	}
}

func TestWrongUsageIsNamed(t *testing.T) {
	for want, args := range map[string][]string{
		"usage:":                         {},
		"give one adapter":               {"check", "-slot", "k-0"},
		"-slot: \"\" is not a slot name": {"check", "127.0.0.1:1"},
		"is no loopback address":         {"check", "-slot", "k-0", "10.0.0.1:1"},
		"use one of none, changes, adds": {"check", "-slot", "k-0", "-set", "x", "127.0.0.1:1"},
		"no such file":                   {"check", "-slot", "k-0", "-exec", "nowhere.yaml", "db"},
		"-address":                       {"check", "-slot", "k-0", "-address", "x", "127.0.0.1:1"},
	} {
		var out bytes.Buffer
		if code := Command(t.Context(), args, func(string) string { return "" }, &out, &out); code != 2 || !strings.Contains(out.String(), want) {
			t.Errorf("%q: %d %s", args, code, out.String())
		}
	}
	var out bytes.Buffer
	if code := Command(t.Context(), []string{"check", "-h"}, func(string) string { return "" }, &out, &out); code != 0 || !strings.Contains(out.String(), "Exit code:") {
		t.Errorf("%d %s", code, out.String())
	}
}
