package consulproxy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/group"
)

// The objects of the writes; every watch sees a version in its answers.
const (
	prefix    = "service/" + groupName + "/"
	leaderKey = prefix + "leader"
	configKey = prefix + "config"
)

// death is how a coordinator is taken away while members wait for changes at it.
type death struct {
	name string
	// leads: its Consul server is the leader.
	leads bool
	take  func(*world, *coordinator)
	// why is the reason by which the member's Consul proxy leaves the coordinator first, as
	// logged; "": several reasons are possible.
	why string
	// says are the errors that a workload may see, all of which Consul itself gives its
	// clients in the like case, to be asked again; nil: none.
	says []string
}

// killed: the kernel resets the connections of a process that is gone.
func killed(w *world, c *coordinator) {
	c.way.Route(w.gateway().Name(c.name), "127.0.0.1:1")
	c.way.Cut()
	c.server.Kill()
}

// silenced: its machine is gone, without a closed connection.
func silenced(_ *world, c *coordinator) {
	c.way.Pause()
	c.server.Kill()
}

// orphaned: its Consul server alone is gone.
func orphaned(_ *world, c *coordinator) { c.server.Kill() }

// while Consul has no leader. A client without a Consul proxy gets the same errors.
var noLeader = []string{"No cluster leader", "rpc error", "EOF", "leadership", "Raft leader not found"}

// A member's workload waits for changes as Patroni and watches do, and the coordinator that
// carries the queries dies. Every query gets exactly one true answer from Consul. An index does
// not go back, a version belongs to its index, and writes without a carrying coordinator are
// seen.
func TestDOR07_BlockingQueriesFollowADeadCoordinator(t *testing.T) {
	for _, d := range []death{
		{name: "process killed", take: killed},
		// Long before the Session's own timer ends it.
		{name: "machine silent", take: silenced, why: "no answer to a ping"},
		{name: "consul killed", take: orphaned, why: "503"},
		{name: "process killed that led consul", leads: true, take: killed, says: noLeader},
		{name: "machine silent that led consul", leads: true, take: silenced, why: "no answer to a ping", says: noLeader},
	} {
		t.Run(d.name, func(t *testing.T) { followDeath(t, d) })
	}
}

func followDeath(t *testing.T, d death) {
	w := newWorld(t, 2)
	m := w.members[0]
	history := newHistory(w)
	history.write(0)
	watches := m.watches(history)
	for _, one := range watches {
		one.ask(t.Context()) // which has the Consul proxy choose a coordinator
	}
	dies := w.serving()
	at := w.place(dies)
	next := (at + 1) % coordinators
	leader := next
	if d.leads {
		leader = at
	}
	w.lead(leader)

	ctx, cancel := context.WithCancel(t.Context()) // each step has its own limit
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	before := dies.asked.Load()
	for _, one := range watches {
		waiting.Go(func() { one.run(ctx) })
	}
	session, err := m.session()
	if err != nil {
		t.Fatal(err)
	}
	renewals := &renewer{m: m, session: session}
	eventually(t, "all queries wait", func() error {
		if n := dies.asked.Load() - before; n < int64(len(watches)) {
			return fmt.Errorf("%d of %d", n, len(watches))
		}
		return nil
	})
	history.write(next)
	seenBy(t, watches, history.version())
	waiting.Go(func() { renewals.run(ctx) })

	died := time.Now()
	d.take(w, dies)
	history.write(next) // while no coordinator carries the queries, or as soon as Consul has a leader
	written := time.Now()
	seenBy(t, watches, history.version())
	t.Logf("%s: written %v after the death, seen by all %d queries %v after it", d.name,
		written.Sub(died).Round(time.Millisecond), len(watches), time.Since(died).Round(time.Millisecond))
	for range 3 {
		history.write(next)
		seenBy(t, watches, history.version())
	}
	renewed := renewals.count()
	eventually(t, "the session is renewed", func() error {
		if renewals.count() < renewed+2 {
			return errors.New("not since")
		}
		return nil
	})
	cancel()
	waiting.Wait()
	for _, one := range watches {
		one.verify(t, history, d.says)
	}
	left := m.left.all()
	if len(left) == 0 || !strings.Contains(left[0], d.why) {
		t.Errorf("the coordinator was left because of %q, want %s first", left, d.why)
	}
	answers, failed := 0, 0
	for _, one := range watches {
		answers += len(one.answers)
		for _, a := range one.answers {
			if a.status != http.StatusOK {
				failed++
			}
		}
	}
	t.Logf("%s: %d of %d answers to queries are errors, coordinators were left %d times", d.name, failed, answers, len(left))
	if failed := renewals.others(d.says); len(failed) > 0 {
		t.Errorf("renewals: %+v", failed)
	}
	if entry, _, err := w.admin(next).Session().Info(session, nil); err != nil || entry == nil {
		t.Errorf("the workload's session has ended: %v", err)
	}
}

// lead has one server lead and the others know it.
func (w *world) lead(server int) {
	w.t.Helper()
	eventually(w.t, "the leader is chosen", func() error {
		now, err := w.consul.Leader()
		if err == nil && now != server {
			err = errors.Join(fmt.Errorf("server %d leads", now), w.consul.Lead(server))
		}
		return err
	})
	want := ""
	eventually(w.t, "all know the leader", func() error {
		for i := range coordinators {
			leader, err := w.admin(i).Status().Leader()
			if err != nil {
				return err
			}
			if i == 0 {
				want = leader
			}
			if leader == "" || leader != want {
				return fmt.Errorf("server %d says %q", i, leader)
			}
		}
		return nil
	})
}

// history records the written versions, with the index that Consul gave to each.
type history struct {
	w *world

	mu   sync.Mutex
	last int
	at   map[uint64]int // version by the index of its write; guarded by mu
}

func newHistory(w *world) *history { return &history{w: w, at: map[uint64]int{}} }

func (h *history) version() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// write writes the next version of everything at a server, once: it reads a key with an uncertain
// result before it tries again.
func (h *history) write(server int) {
	h.w.t.Helper()
	h.mu.Lock()
	h.last++
	version := strconv.Itoa(h.last)
	h.mu.Unlock()
	client := h.w.admin(server)
	var ops consul.TxnOps
	for _, key := range []string{leaderKey, configKey} {
		ops = append(ops, &consul.TxnOp{KV: &consul.KVTxnOp{Verb: consul.KVSet, Key: key, Value: []byte(version)}})
	}
	slot := group.SlotName(groupName, 1)
	ops = append(ops, &consul.TxnOp{Service: &consul.ServiceTxnOp{Verb: consul.ServiceSet, Node: slot, Service: *registration(slot, 1, version).Service}})
	eventually(h.w.t, "write version "+version, func() error {
		pair, _, err := client.KV().Get(configKey, &consul.QueryOptions{RequireConsistent: true})
		if err != nil {
			return err
		}
		if pair == nil || string(pair.Value) != version {
			if ok, answer, _, err := client.Txn().Txn(ops, nil); err != nil || !ok {
				return fmt.Errorf("%v %w", answer, err)
			}
		}
		if pair, _, err = client.KV().Get(configKey, &consul.QueryOptions{RequireConsistent: true}); err == nil {
			h.mu.Lock()
			h.at[pair.ModifyIndex] = h.last
			h.mu.Unlock()
		}
		return err
	})
}

// watch is one blocking query of a workload. The workload repeats it as Consul's documents
// require: with the index of the last answer, and from the beginning if that index went back.
type watch struct {
	m    *member
	path string
	// read gives the version and the index of its write, of each thing in an answer.
	read func(body []byte) (map[int]uint64, error)

	mu      sync.Mutex
	answers []watchAnswer
	index   uint64
}

type watchAnswer struct {
	status    int
	index     uint64
	body, err string
}

// watches are the queries that Patroni keeps open, and queries of other clients.
func (m *member) watches(h *history) (out []*watch) {
	h.w.t.Helper()
	for path, read := range map[string]func([]byte) (map[int]uint64, error){
		"/v1/kv/" + leaderKey + "?wait=60s":                      readPairs,
		"/v1/kv/" + leaderKey + "?wait=45s&consistent":           readPairs,
		"/v1/kv/" + prefix + "?recurse&wait=60s":                 readPairs,
		"/v1/kv/" + prefix + "?recurse&wait=60s&consistent":      readPairs,
		"/v1/kv/" + configKey + "?wait=2m":                       readPairs,
		"/v1/health/service/" + groupName + "?wait=60s":          readHealth,
		"/v1/health/service/" + groupName + "?passing&wait=50s":  readHealth,
		"/v1/catalog/service/" + groupName + "?wait=60s":         readCatalog,
		"/v1/catalog/node/" + group.SlotName(groupName, 1) + "?": readNode,
	} {
		out = append(out, &watch{m: m, path: path, read: read})
	}
	return out
}

func readPairs(body []byte) (map[int]uint64, error) {
	var list []struct {
		Key         string
		Value       []byte
		ModifyIndex uint64
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	out := map[int]uint64{}
	for _, one := range list {
		version, err := strconv.Atoi(string(one.Value))
		if err != nil || !slices.Contains([]string{leaderKey, configKey}, one.Key) {
			return nil, fmt.Errorf("key %s has %q", one.Key, one.Value)
		}
		out[version] = one.ModifyIndex
	}
	return out, nil
}

// service is one in an answer of the catalog, whichever.
type service struct {
	Service, ServiceName string
	Meta, ServiceMeta    map[string]string
	ModifyIndex          uint64
}

func readServices(list []service) (map[int]uint64, error) {
	out := map[int]uint64{}
	for _, one := range list {
		if one.Service+one.ServiceName != groupName {
			return nil, fmt.Errorf("service %q", one.Service+one.ServiceName)
		}
		text := one.Meta["version"] + one.ServiceMeta["version"]
		if text == "" {
			continue // of the other member, which stays unchanged
		}
		version, err := strconv.Atoi(text)
		if err != nil {
			return nil, err
		}
		out[version] = one.ModifyIndex
	}
	return out, nil
}

func readHealth(body []byte) (map[int]uint64, error) {
	var list []struct{ Service service }
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	var services []service
	for _, one := range list {
		services = append(services, one.Service)
	}
	return readServices(services)
}

func readCatalog(body []byte) (map[int]uint64, error) {
	var list []service
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, err
	}
	return readServices(list)
}

func readNode(body []byte) (map[int]uint64, error) {
	var node struct{ Services map[string]service }
	if err := json.Unmarshal(body, &node); err != nil {
		return nil, err
	}
	var services []service
	for _, one := range node.Services {
		services = append(services, one)
	}
	return readServices(services)
}

// run asks until ctx ends.
func (q *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		if a := q.ask(ctx); a.err != "" || a.status != http.StatusOK {
			select {
			case <-ctx.Done():
			case <-time.After(100 * time.Millisecond): // as Consul's clients do, sooner or later
			}
		}
	}
}

// ask asks once and notes the answer.
func (q *watch) ask(ctx context.Context) (a watchAnswer) {
	q.mu.Lock()
	path := q.path
	if q.index > 0 {
		path += "&index=" + strconv.FormatUint(q.index, 10)
	}
	q.mu.Unlock()
	a = q.m.get(ctx, http.MethodGet, path)
	if ctx.Err() != nil {
		return a // the waiter has gone
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	q.answers = append(q.answers, a)
	switch {
	case a.err != "" || a.status != http.StatusOK:
	case a.index < q.index:
		q.index = 0
	default:
		q.index = a.index
	}
	return a
}

func (m *member) get(ctx context.Context, method, path string) (a watchAnswer) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+m.addr+path, nil)
	if err != nil {
		return watchAnswer{err: err.Error()}
	}
	req.Header.Set("X-Consul-Token", m.token)
	res, err := m.client.Do(req)
	if err != nil {
		return watchAnswer{err: err.Error()}
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return watchAnswer{err: err.Error()}
	}
	a = watchAnswer{status: res.StatusCode, body: string(body)}
	if text := res.Header.Get("X-Consul-Index"); text != "" {
		if a.index, err = strconv.ParseUint(text, 10, 64); err != nil {
			a.err = err.Error()
		}
	}
	return a
}

// seen is the highest version that the query was answered with.
func (q *watch) seen() (high int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, a := range q.answers {
		if a.status != http.StatusOK {
			continue
		}
		versions, err := q.read([]byte(a.body))
		if err != nil {
			return -1 // verify reports it
		}
		for version := range versions {
			high = max(high, version)
		}
	}
	return high
}

// seenBy waits until all were answered with a version.
func seenBy(t *testing.T, watches []*watch, version int) {
	t.Helper()
	end := time.NewTimer(limit)
	defer end.Stop()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		late := slices.DeleteFunc(slices.Clone(watches), func(q *watch) bool { return q.seen() >= version })
		if len(late) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-end.C:
			for _, q := range late {
				t.Errorf("GET %s does not see version %d: it had %d answers, the last %+v", q.path, version, len(q.answers), q.answers[len(q.answers)-1])
			}
			t.FailNow()
		}
	}
}

// verify compares every answer with the written history.
func (q *watch) verify(t *testing.T, h *history, says []string) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	last, high := uint64(0), 0
	for n, a := range q.answers {
		if a.err != "" || a.status != http.StatusOK {
			if !allowed(a, says) {
				t.Errorf("GET %s: answer %d is %+v", q.path, n, a)
			}
			continue
		}
		if a.index == 0 || a.index < last {
			t.Errorf("GET %s: answer %d has index %d, the one before %d", q.path, n, a.index, last)
		}
		last = a.index
		versions, err := q.read([]byte(a.body))
		if err != nil || len(versions) != 1 {
			t.Errorf("GET %s: answer %d is %s: %v", q.path, n, a.body, err)
		}
		for version, at := range versions {
			if version < high || at > a.index || h.at[at] != version {
				t.Errorf("GET %s: answer %d has version %d of index %d, at index %d, after version %d; written there was %d", q.path, n, version, at, a.index, high, h.at[at])
			}
			high = version
		}
	}
	if high != h.last {
		t.Errorf("GET %s: the last version seen is %d of %d", q.path, high, h.last)
	}
}

// allowed reports whether an error is one of Consul's own.
func allowed(a watchAnswer, says []string) bool {
	return a.err == "" && a.status == http.StatusInternalServerError &&
		slices.ContainsFunc(says, func(text string) bool { return strings.Contains(a.body, text) })
}

// session makes a session that lives while it is renewed.
func (m *member) session() (string, error) {
	id, _, err := m.consul().Session().CreateNoChecks(&consul.SessionEntry{TTL: "10s", LockDelay: time.Millisecond, Behavior: consul.SessionBehaviorDelete}, nil)
	return id, err
}

// renewer renews a session as Patroni does, only more often.
type renewer struct {
	m       *member
	session string

	mu      sync.Mutex
	renewed int
	failed  []watchAnswer
}

func (r *renewer) run(ctx context.Context) {
	for ctx.Err() == nil {
		a := r.m.get(ctx, http.MethodPut, "/v1/session/renew/"+r.session)
		if ctx.Err() != nil {
			return
		}
		r.mu.Lock()
		if a.err == "" && a.status == http.StatusOK {
			r.renewed++
		} else {
			r.failed = append(r.failed, a)
		}
		r.mu.Unlock()
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (r *renewer) count() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.renewed
}

// others are the failures that Consul alone would not have given.
func (r *renewer) others(says []string) (out []watchAnswer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.failed), func(a watchAnswer) bool { return allowed(a, says) })
}
