package consulproxy

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"time"
)

// Bounds of a session. Consul's own minimum TTL is 10 s, and Patroni understands Consul's refusal
// of a shorter TTL.
const (
	// LeastTTL is the minimum TTL of a session, as agent/self reports it.
	LeastTTL     = 10 * time.Second
	maxTTL       = time.Hour
	maxLockDelay = time.Minute
	maxName      = 128
)

// newSession is the session request that goes to Consul. Behaviour and name come from the caller.
type newSession struct {
	Node      string   `json:"Node"`
	Name      string   `json:"Name,omitempty"`
	Checks    []string `json:"Checks"`
	LockDelay string   `json:"LockDelay,omitempty"`
	Behavior  string   `json:"Behavior,omitempty"`
	TTL       string   `json:"TTL"`
}

// sessionBody makes the body of a session on the caller's node.
func sessionBody(c Caller, body []byte) ([]byte, *Refusal) {
	var asked struct {
		// Read and dropped: the session is on the caller's node, and no check of that node ends it.
		Node, Checks, NodeChecks, ServiceChecks json.RawMessage

		Name, Behavior, TTL string
		LockDelay           json.RawMessage
	}
	if refused := decode(body, &asked); refused != nil {
		return nil, refused
	}
	ttl, err := time.ParseDuration(asked.TTL)
	if err != nil || ttl <= 0 || ttl > maxTTL {
		return nil, invalid("TTL: %s; want a time up to %v, such as 30s: without it only the eviction of its Slot would end the session", truncated(asked.TTL), maxTTL)
	}
	if !slices.Contains([]string{"", "release", "delete"}, asked.Behavior) {
		return nil, invalid("Behavior: %s; want release or delete", truncated(asked.Behavior))
	}
	if len(asked.Name) > maxName {
		return nil, invalid("Name: %d bytes, at most %d are allowed", len(asked.Name), maxName)
	}
	delay, refused := lockDelay(asked.LockDelay)
	if refused != nil {
		return nil, refused
	}
	return encode(newSession{Node: c.Slot, Name: asked.Name, Checks: []string{}, LockDelay: delay, Behavior: asked.Behavior, TTL: asked.TTL})
}

// lockDelay parses a lock delay as Consul does: a text, or a number of nanoseconds, or of seconds
// if it is below a thousand.
func lockDelay(raw json.RawMessage) (string, *Refusal) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var (
		text   string
		number float64
		delay  time.Duration
	)
	err := json.Unmarshal(raw, &number)
	switch {
	case err != nil:
		if err = json.Unmarshal(raw, &text); err == nil {
			delay, err = time.ParseDuration(text)
		}
	case number < 0 || number > float64(maxLockDelay):
		delay = -1
	case number < 1000:
		delay = time.Duration(number * float64(time.Second))
	default:
		delay = time.Duration(number)
	}
	if err != nil || delay < 0 || delay > maxLockDelay {
		return "", invalid("LockDelay: %s; want a time up to %v", truncated(string(raw)), maxLockDelay)
	}
	return delay.String(), nil
}

// kvOp is one operation of a transaction.
type kvOp struct {
	Verb    string `json:"Verb"`
	Key     string `json:"Key"`
	Value   []byte `json:"Value,omitempty"`
	Flags   uint64 `json:"Flags,omitempty"`
	Index   uint64 `json:"Index,omitempty"`
	Session string `json:"Session,omitempty"`
}

// verbs are Consul's for KV.
var verbs = []string{
	"set", "cas", "lock", "unlock", "get", "get-or-empty", "get-tree",
	"check-index", "check-session", "check-not-exists", "delete", "delete-tree", "delete-cas",
}

// writes are the verbs that store a value.
var writes = []string{"set", "cas", "lock", "unlock"}

// maxOps is Consul's own limit.
const maxOps = 128

// txn is a transaction in the form that goes to Consul.
type txn struct {
	body []byte
	// added is the growth of the group's stored bytes. effect: the transaction changes keys; reads:
	// its answer has values.
	added         int
	effect, reads bool
}

// txnBody makes a transaction on the caller's keys.
func txnBody(c Caller, body []byte) (t txn, refused *Refusal) {
	var asked []struct{ KV, Node, Service, Check json.RawMessage }
	if refused := decode(body, &asked); refused != nil {
		return t, refused
	}
	if len(asked) == 0 || len(asked) > maxOps {
		return t, invalid("%d operations, want 1 to %d", len(asked), maxOps)
	}
	type op struct {
		KV kvOp `json:"KV"`
	}
	out := make([]op, len(asked))
	shown := map[string]bool{}
	for i, one := range asked {
		if given(one.Node) || given(one.Service) || given(one.Check) || !given(one.KV) {
			return t, forbidden("operation %d: members' transactions may only use KV", i)
		}
		kv := &out[i].KV
		if refused := decode(one.KV, kv); refused != nil {
			return t, refused
		}
		if refused := kv.judge(c, i, shown); refused != nil {
			return t, refused
		}
		switch {
		case slices.Contains(writes, kv.Verb):
			t.added += stored(kv.Key, len(kv.Value))
			t.effect = true
		case strings.HasPrefix(kv.Verb, "delete"):
			t.effect = true
		case strings.HasPrefix(kv.Verb, "get"):
			t.reads = true
		}
	}
	t.body, refused = encode(out)
	return t, refused
}

// judge checks operation i of a transaction; shown are the keys and trees that the answer already
// has. The answer may have each once: Consul builds it in memory, and a hundred copies of a tree
// would be a hundred times its size.
func (kv *kvOp) judge(c Caller, i int, shown map[string]bool) *Refusal {
	if !slices.Contains(verbs, kv.Verb) {
		return forbidden("operation %d: verb %s; allowed are %s", i, truncated(kv.Verb), strings.Join(verbs, ", "))
	}
	if strings.HasSuffix(kv.Verb, "-tree") {
		kv.Key = prefixOf(c, kv.Key)
	}
	if refused := inScope(c, kv.Key); refused != nil {
		return refused
	}
	what := ""
	switch kv.Verb {
	case "get-tree":
		what = "a tree"
	case "get", "get-or-empty":
		what = "key " + truncated(kv.Key)
	}
	if shown[what] {
		return invalid("operation %d: the transaction reads %s twice; once is allowed", i, what)
	}
	shown[what] = what != ""
	return nil
}

func given(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// decode is strict: an unknown field may have a meaning for Consul.
func decode(body []byte, into any) *Refusal {
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return invalid("body: %s", truncated(err.Error()))
	}
	if _, err := dec.Token(); err != io.EOF {
		return invalid("body: there is more than one value")
	}
	return nil
}

func encode(value any) ([]byte, *Refusal) {
	out, err := json.Marshal(value)
	if err != nil {
		return nil, invalid("body: %s", truncated(err.Error()))
	}
	return out, nil
}
