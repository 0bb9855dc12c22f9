package consulproxy_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	consul "github.com/hashicorp/consul/api"

	"cadre.dev/core/group"
	"cadre.dev/store/storetest"
)

// Permitted requests of a workload work through both Consul proxies with only a member's token:
// those of Consul's own client, of its command line, and of Patroni. The test of the
// coordinator's Consul proxy has the forbidden requests.
func TestPermittedRequestsWork(t *testing.T) {
	w := newWorld(t, 2)
	t.Run("client", func(t *testing.T) { w.client(t) })
	t.Run("command line", func(t *testing.T) { w.commandLine(t) })
	t.Run("patroni", func(t *testing.T) { w.patroni(t) })
}

// talk passes values from one step to the next.
type talk struct {
	self, other *consul.Client
	session     string
	index       uint64
}

// client has two members talk, step by step.
func (w *world) client(t *testing.T) {
	const key, counter = prefix + "client/lock", prefix + "client/counter"
	c := &talk{self: w.members[0].consul(), other: w.members[1].consul()}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"agent/self names the own node", func() error {
			name, err := c.self.Agent().NodeName()
			return is(name, group.SlotName(groupName, 0), err)
		}},
		{"status/leader", func() error {
			leader, err := c.self.Status().Leader()
			return is(leader != "", true, err)
		}},
		{"session create", func() (err error) {
			c.session, _, err = c.self.Session().Create(&consul.SessionEntry{Name: "client", TTL: "10s", LockDelay: time.Millisecond, Behavior: consul.SessionBehaviorDelete}, nil)
			return err
		}},
		{"session info is of the own node", func() error {
			entry, _, err := c.self.Session().Info(c.session, nil)
			if err == nil && entry == nil {
				err = errors.New("there is none")
			}
			if err != nil {
				return err
			}
			return is(entry.Node+" "+entry.TTL+" "+entry.Behavior, group.SlotName(groupName, 0)+" 10s delete", nil)
		}},
		{"session node and list", func() error {
			all, _, err := c.self.Session().List(nil)
			own, _, err2 := c.self.Session().Node(group.SlotName(groupName, 0), nil)
			return is(fmt.Sprint(len(all), len(own)), "1 1", errors.Join(err, err2))
		}},
		{"session renew", func() error {
			entry, _, err := c.self.Session().Renew(c.session, nil)
			if err == nil && entry == nil {
				err = consul.ErrSessionExpired
			}
			return err
		}},
		{"acquire", func() error {
			got, _, err := c.self.KV().Acquire(&consul.KVPair{Key: key, Value: []byte("self"), Session: c.session}, nil)
			return is(got, true, err)
		}},
		{"another member does not acquire it", func() error {
			id, _, err := c.other.Session().Create(&consul.SessionEntry{TTL: "10s", LockDelay: time.Millisecond}, nil)
			if err != nil {
				return err
			}
			got, _, err := c.other.KV().Acquire(&consul.KVPair{Key: key, Value: []byte("other"), Session: id}, nil)
			_, err2 := c.other.Session().Destroy(id, nil)
			return is(got, false, errors.Join(err, err2))
		}},
		{"get returns the holder", func() error {
			pair, meta, err := c.other.KV().Get(key, &consul.QueryOptions{RequireConsistent: true})
			if err != nil || pair == nil {
				return fmt.Errorf("%v %w", pair, err)
			}
			c.index = meta.LastIndex
			return is(string(pair.Value)+" "+pair.Session, "self "+c.session, nil)
		}},
		{"a blocking query ends with its wait", func() error {
			_, meta, err := c.other.KV().Get(key, &consul.QueryOptions{WaitIndex: c.index, WaitTime: 300 * time.Millisecond})
			if err != nil {
				return err
			}
			return is(meta.LastIndex, c.index, nil)
		}},
		{"a blocking query ends with a change", func() error {
			type result struct {
				pair *consul.KVPair
				meta *consul.QueryMeta
				err  error
			}
			got := make(chan result, 1)
			go func() {
				pair, meta, err := c.other.KV().Get(key, &consul.QueryOptions{WaitIndex: c.index, WaitTime: time.Minute})
				got <- result{pair, meta, err}
			}()
			released, _, err := c.self.KV().Release(&consul.KVPair{Key: key, Value: []byte("free"), Session: c.session}, nil)
			if err := is(released, true, err); err != nil {
				return err
			}
			r := <-got
			if r.err != nil || r.pair == nil {
				return fmt.Errorf("%v %w", r.pair, r.err)
			}
			return is(fmt.Sprintf("%s %q %v", r.pair.Value, r.pair.Session, r.meta.LastIndex > c.index), `free "" true`, nil)
		}},
		{"cas makes a missing key", func() error {
			ok, _, err := c.self.KV().CAS(&consul.KVPair{Key: counter, Value: []byte("1")}, nil)
			return is(ok, true, err)
		}},
		{"cas does not make it again", func() error {
			ok, _, err := c.other.KV().CAS(&consul.KVPair{Key: counter, Value: []byte("1")}, nil)
			return is(ok, false, err)
		}},
		{"cas changes an unchanged key", func() error {
			pair, _, err := c.other.KV().Get(counter, nil)
			if err != nil || pair == nil {
				return fmt.Errorf("%v %w", pair, err)
			}
			pair.Value, pair.Flags = []byte("2"), 7
			ok, _, err := c.other.KV().CAS(pair, nil)
			return is(ok, true, err)
		}},
		{"a transaction of several keys", func() error {
			ok, answer, _, err := c.self.KV().Txn(consul.KVTxnOps{
				{Verb: consul.KVGet, Key: counter},
				{Verb: consul.KVSet, Key: prefix + "client/a", Value: []byte("a")},
				{Verb: consul.KVCheckNotExists, Key: prefix + "client/b"},
			}, nil)
			if err != nil || !ok || len(answer.Results) == 0 {
				return fmt.Errorf("%v %+v %w", ok, answer, err)
			}
			return is(fmt.Sprintf("%s %d", answer.Results[0].Value, answer.Results[0].Flags), "2 7", nil)
		}},
		{"a transaction that does not hold changes nothing", func() error {
			ok, answer, _, err := c.self.KV().Txn(consul.KVTxnOps{
				{Verb: consul.KVSet, Key: prefix + "client/b", Value: []byte("b")},
				{Verb: consul.KVCheckNotExists, Key: counter},
			}, nil)
			if err != nil || ok || len(answer.Errors) != 1 {
				return fmt.Errorf("%v %+v %w", ok, answer, err)
			}
			pair, _, err := c.self.KV().Get(prefix+"client/b", nil)
			return is(pair == nil, true, err)
		}},
		{"list and keys", func() error {
			pairs, _, err := c.self.KV().List(prefix+"client/", nil)
			keys, _, err2 := c.self.KV().Keys(prefix+"client/", "/", nil)
			return is(fmt.Sprint(len(pairs), keys), fmt.Sprint(3, []string{prefix + "client/a", counter, key}), errors.Join(err, err2))
		}},
		{"delete with cas, and of a tree", func() error {
			stale, _, err := c.self.KV().DeleteCAS(&consul.KVPair{Key: counter, ModifyIndex: 1}, nil)
			if err := is(stale, false, err); err != nil {
				return err
			}
			_, err = c.self.KV().DeleteTree(prefix+"client/", nil)
			pairs, _, err2 := c.self.KV().List(prefix+"client/", nil)
			return is(len(pairs), 0, errors.Join(err, err2))
		}},
		{"a lock ends with its session", func() error {
			got, _, err := c.self.KV().Acquire(&consul.KVPair{Key: key, Value: []byte("self"), Session: c.session}, nil)
			if err := is(got, true, err); err != nil {
				return err
			}
			_, err = c.self.Session().Destroy(c.session, nil)
			pair, _, err2 := c.other.KV().Get(key, &consul.QueryOptions{RequireConsistent: true})
			return is(pair == nil, true, errors.Join(err, err2))
		}},
		{"the client's lock and semaphore", func() error { return locks(t.Context(), c) }},
		{"health and catalog", func() error {
			entries, _, err := c.self.Health().Service(groupName, "", true, nil)
			checks, _, err2 := c.self.Health().Checks(groupName, nil)
			services, _, err3 := c.self.Catalog().Services(nil)
			node, _, err4 := c.self.Catalog().Node(group.SlotName(groupName, 1), nil)
			if err := errors.Join(err, err2, err3, err4); err != nil {
				return err
			}
			return is(fmt.Sprint(len(entries), len(checks), services[groupName], node.Node.Node), fmt.Sprint(2, 2, []string{"replica"}, group.SlotName(groupName, 1)), nil)
		}},
		{"the own token", func() error {
			token, _, err := c.self.ACL().TokenReadSelf(nil)
			if err != nil {
				return err
			}
			return is(token.SecretID, w.members[0].token, nil)
		}},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
	}
}

// locks takes the locks that programs with Consul's client take.
func locks(ctx context.Context, c *talk) error {
	lock, err := c.self.LockOpts(&consul.LockOptions{Key: prefix + "client/l", SessionTTL: "10s", LockDelay: time.Millisecond, MonitorRetries: 3})
	if err != nil {
		return err
	}
	lost, err := lock.Lock(ctx.Done())
	if err != nil {
		return fmt.Errorf("lock: %w", err)
	}
	select {
	case <-lost:
		return errors.New("the lock was lost")
	default:
	}
	if err := errors.Join(lock.Unlock(), lock.Destroy()); err != nil {
		return fmt.Errorf("unlock: %w", err)
	}
	semaphore, err := c.other.SemaphoreOpts(&consul.SemaphoreOptions{Prefix: prefix + "client/s", Limit: 2, SessionTTL: "10s"})
	if err != nil {
		return err
	}
	if _, err := semaphore.Acquire(ctx.Done()); err != nil {
		return fmt.Errorf("semaphore: %w", err)
	}
	return errors.Join(semaphore.Release(), semaphore.Destroy())
}

// is compares the result of a step, if there was no error.
func is[T comparable](got, want T, err error) error {
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// commandLine runs the program, one command after the other.
func (w *world) commandLine(t *testing.T) {
	binary := storetest.ConsulBinary(t)
	m := w.members[0]
	run := func(ctx context.Context, args ...string) (string, error) {
		cmd := exec.CommandContext(ctx, binary, args...)
		cmd.Env = append(os.Environ(), "CONSUL_HTTP_ADDR="+m.addr, "CONSUL_HTTP_TOKEN="+m.token)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	const key = prefix + "cli/x"
	asks := func(want string, args ...string) error {
		ctx, cancel := context.WithTimeout(t.Context(), limit)
		defer cancel()
		out, err := run(ctx, args...)
		if err == nil && !strings.Contains(out, want) {
			err = fmt.Errorf("%q is missing in its output", want)
		}
		if err != nil {
			err = fmt.Errorf("consul %s: %w:\n%s", strings.Join(args, " "), err, out)
		}
		return err
	}
	for _, c := range []struct {
		args []string
		want string // in the output
	}{
		{[]string{"kv", "put", key, "one"}, "Success"},
		{[]string{"kv", "get", key}, "one"},
		{[]string{"kv", "put", "-cas", "-modify-index=0", prefix + "cli/y", "two"}, "Success"},
		{[]string{"kv", "get", "-recurse", prefix + "cli/"}, "cli/y:two"},
		{[]string{"kv", "get", "-keys", prefix}, "cli/"},
		{[]string{"kv", "export", prefix + "cli/"}, `"key": "` + key + `"`},
		{[]string{"watch", "-type=key", "-key=" + key}, `"Value": "b25l"`},
		{[]string{"watch", "-type=keyprefix", "-prefix=" + prefix + "cli/"}, "cli/y"},
		{[]string{"watch", "-type=service", "-service=" + groupName}, group.SlotName(groupName, 1)},
		{[]string{"watch", "-type=services"}, groupName},
		{[]string{"watch", "-type=nodes"}, group.SlotName(groupName, 1)},
		{[]string{"watch", "-type=checks", "-service=" + groupName}, "ready"},
		{[]string{"lock", "-name=test", prefix + "cli/lock", "echo", "held"}, "held"},
		{[]string{"lock", "-n=2", prefix + "cli/places", "echo", "held"}, "held"},
		{[]string{"catalog", "nodes", "-service=" + groupName}, group.SlotName(groupName, 0)},
		{[]string{"catalog", "services", "-tags"}, "replica"},
		{[]string{"catalog", "datacenters"}, "dc1"},
		{[]string{"acl", "token", "read", "-self"}, m.token},
		{[]string{"kv", "delete", "-recurse", prefix + "cli/"}, "Success"},
	} {
		if err := asks(c.want, c.args...); err != nil {
			t.Error(err)
		}
	}
	// The server that answers may lag behind the server that wrote.
	if err := asks("Success", "kv", "put", key, "one"); err != nil {
		t.Error(err)
	}
	eventually(t, "a stale read", func() error { return asks("ModifyIndex", "kv", "get", "-detailed", "-stale", key) })
}

// patroni runs Patroni's requests to Consul, with Patroni's own code, as two members.
func (w *world) patroni(t *testing.T) {
	python, err := filepath.Abs("../../.tools/patroni/bin/python3")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(python); err != nil {
		t.Skipf("Patroni is not installed (make tools): its requests were not tried: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*limit)
	defer cancel()
	args := []string{"testdata/scope.py", groupName}
	for _, m := range w.members {
		args = append(args, m.id.Slot, m.addr, m.token)
	}
	cmd := exec.CommandContext(ctx, python, args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || !strings.HasSuffix(out.String(), "done\n") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
