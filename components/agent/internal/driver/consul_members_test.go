package driver

import (
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// fakeConsul answers as the leader c-0 of servers, the last of which has failed, and records the
// requested changes.
type fakeConsul struct {
	servers   []string
	minQuorum int
	// contested is how often another client changes autopilot's configuration in between.
	contested int
	// stuck: a server is not taken out of raft.
	stuck bool
	calls []string
}

func (f *fakeConsul) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	type object = map[string]any
	answer := func(v any) { _ = json.NewEncoder(w).Encode(v) }
	last := f.servers[len(f.servers)-1]
	switch r.Method + " " + r.URL.Path {
	case "GET /v1/operator/raft/configuration":
		var list []object
		for i, name := range f.servers {
			list = append(list, object{"ID": "id-" + name, "Node": name, "Leader": i == 0, "Voter": true})
		}
		answer(object{"Servers": list})
	case "GET /v1/agent/members":
		var list []object
		for _, name := range f.servers {
			status := consulAlive
			if name == last {
				status = 4 // failed
			}
			list = append(list, object{"Name": name, "Status": status, "Tags": object{"id": "id-" + name}})
		}
		answer(list)
	case "GET /v1/operator/autopilot/configuration":
		answer(object{"MinQuorum": f.minQuorum, "CleanupDeadServers": true, "CreateIndex": 4, "ModifyIndex": 7})
	case "PUT /v1/operator/autopilot/configuration":
		var config struct {
			MinQuorum          int
			CleanupDeadServers bool
			ModifyIndex        *int
		}
		if err := json.NewDecoder(r.Body).Decode(&config); err != nil || !config.CleanupDeadServers || config.ModifyIndex != nil || r.URL.Query().Get("cas") != "7" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		if f.contested > 0 {
			f.contested--
			answer(false)
			return
		}
		f.minQuorum = config.MinQuorum
		f.calls = append(f.calls, "MinQuorum "+strconv.Itoa(config.MinQuorum))
		answer(true)
	case "DELETE /v1/operator/raft/peer":
		if f.stuck {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		f.calls = append(f.calls, "raft without "+r.URL.Query().Get("id"))
	case "PUT /v1/agent/force-leave/" + last:
		f.calls = append(f.calls, "gossip without "+last)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func (f *fakeConsul) driver(t *testing.T, members []string) Driver {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	d, err := New(Config{
		Kind: "consul", Self: "c-0", Settings: map[string]string{"http_addr": strings.TrimPrefix(server.URL, "http://")},
		Members: func() []string { return members },
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestALeaveThatBreaksLeavesNoNamelessVote: Leave forgets the name of a server after its vote.
// Otherwise an interrupted leave would leave a vote without a known owner.
func TestALeaveThatBreaksLeavesNoNamelessVote(t *testing.T) {
	f := &fakeConsul{servers: []string{"c-0", "c-1", "c-2"}, stuck: true}
	d := f.driver(t, nil)
	leave := changeOf("remove", "c-2", "id-c-2")
	if err := Change(t.Context(), d, leave); !errors.Is(err, ErrTransient) || len(f.calls) > 0 {
		t.Errorf("its vote stays: %v, and %q", err, f.calls)
	}
	f.stuck = false
	if err := Change(t.Context(), d, leave); err != nil || !slices.Equal(f.calls, []string{"raft without id-c-2", "gossip without c-2"}) {
		t.Errorf("asked again: %v, %q", err, f.calls)
	}
}

// TestMinQuorumFollowsTheServers: a leave undoes the raise of a drain, unless another server is to
// come, and keeps a lower value of an operator.
func TestMinQuorumFollowsTheServers(t *testing.T) {
	names := []string{"c-0", "c-1", "c-2", "c-3", "c-4"}
	for name, tc := range map[string]struct {
		have, wanted, contested, want int
	}{
		"fewer replicas":                  {have: 5, wanted: 3, want: 4},
		"changed by others in between":    {have: 5, wanted: 3, contested: 1, want: 4},
		"one above the servers":           {have: 7, wanted: 3, want: 4},
		"one is replaced":                 {have: 5, wanted: 5, want: 5},
		"an operator's own":               {have: 3, wanted: 3, want: 3},
		"nothing set":                     {have: 0, wanted: 3, want: 0},
		"the wanted set is not known yet": {have: 5, want: 4},
	} {
		f := &fakeConsul{servers: names, minQuorum: tc.have, contested: tc.contested}
		if err := Change(t.Context(), f.driver(t, names[:tc.wanted]), changeOf("remove", "c-4", "id-c-4")); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if f.minQuorum != tc.want {
			t.Errorf("%s: MinQuorum %d, want %d", name, f.minQuorum, tc.want)
		}
		if at := slices.Index(f.calls, "raft without id-c-4"); at < 0 || at > 0 && f.calls[0] != "MinQuorum "+strconv.Itoa(tc.want) {
			t.Errorf("%s: %q", name, f.calls)
		}
		if err := f.driver(t, nil).Drain(t.Context()); err != nil || f.minQuorum != max(tc.want, 5) {
			t.Errorf("%s: after a drain %d, %v", name, f.minQuorum, err)
		}
	}
}
