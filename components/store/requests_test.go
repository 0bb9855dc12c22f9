package store_test

import (
	"strings"
	"testing"

	"cadre.dev/store"
)

// TestARequestNamesTheFieldThatIsWrong: the error of a handwritten request names the field to
// change.
func TestARequestNamesTheFieldThatIsWrong(t *testing.T) {
	restart := store.QueueRequest{ID: "r", Kind: store.RequestRestart, Slot: "pg-0"}
	update := store.QueueRequest{ID: "r", Kind: store.RequestUpdate, Slot: "pg-0", VMUUID: "vm", InstanceID: "i"}
	replace := store.QueueRequest{ID: "r", Kind: store.RequestReplace, Slot: "pg-0", DeleteDisk: true}
	resolve := store.QueueRequest{ID: "r", Kind: store.RequestResolve, Operation: "o", As: store.ResolvedDone}
	retry := store.QueueRequest{ID: "r", Kind: store.RequestRetry, Group: "pg"}
	with := func(q store.QueueRequest, change func(*store.QueueRequest)) store.QueueRequest {
		change(&q)
		return q
	}
	for name, c := range map[string]struct {
		q    store.QueueRequest
		want string
	}{
		"a restart": {restart, ""}, "an update": {update, ""}, "a replace": {replace, ""}, "a resolve": {resolve, ""}, "a retry": {retry, ""},
		"no id":              {with(restart, func(q *store.QueueRequest) { q.ID = "" }), "id: "},
		"another kind":       {with(restart, func(q *store.QueueRequest) { q.Kind = "reboot" }), "kind: "},
		"a service":          {with(restart, func(q *store.QueueRequest) { q.Service = "db" }), ""},
		"no service name":    {with(restart, func(q *store.QueueRequest) { q.Service = "../db" }), "service: "},
		"a lost service":     {with(replace, func(q *store.QueueRequest) { q.Service = "db" }), "service: "},
		"no slot":            {with(restart, func(q *store.QueueRequest) { q.Slot = "" }), "slot: "},
		"no slot name":       {with(restart, func(q *store.QueueRequest) { q.Slot = "pg" }), "slot: "},
		"the other group":    {with(restart, func(q *store.QueueRequest) { q.Group = "web" }), "group: "},
		"a disk to keep":     {with(replace, func(q *store.QueueRequest) { q.DeleteDisk = false }), "delete_disk: "},
		"a restarted disk":   {with(restart, func(q *store.QueueRequest) { q.DeleteDisk = true }), "delete_disk: "},
		"no operation":       {with(resolve, func(q *store.QueueRequest) { q.Operation = "" }), "operation: "},
		"a bad operation":    {with(resolve, func(q *store.QueueRequest) { q.Operation = "a/b" }), "operation: "},
		"neither":            {with(resolve, func(q *store.QueueRequest) { q.As = "" }), "as: "},
		"something else":     {with(resolve, func(q *store.QueueRequest) { q.As = "maybe" }), "as: "},
		"a resolved slot":    {with(resolve, func(q *store.QueueRequest) { q.Slot = "pg-0" }), "slot: "},
		"a retry of nothing": {with(retry, func(q *store.QueueRequest) { q.Group = "" }), "group: "},
		"a long reason":      {with(restart, func(q *store.QueueRequest) { q.Reason = strings.Repeat("x", store.MaxReason+1) }), "reason: "},
	} {
		err := c.q.Check()
		if (err == nil) != (c.want == "") || err != nil && !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
