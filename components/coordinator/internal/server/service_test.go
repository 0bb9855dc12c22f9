package server

import (
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/coordinator/internal/reports"
	"cadre.dev/core/group"
	apiv1 "cadre.dev/proto/cadre/api/v1"
	controlv1 "cadre.dev/proto/cadre/control/v1"
	"cadre.dev/store"
)

// restartable is a compose text whose service db its agent can restart.
const restartable = `services:
  cadre:
    image: x
    volumes: ["mesh:/run/mesh", "exec-db:/run/cadre-exec/db"]
  db:
    image: x
    command: [/run/mesh/exec, --, db]
    volumes: ["mesh:/run/mesh", "exec-db:/run/cadre-exec"]
    x-cadre:
      exec: {}
  web:
    image: x
volumes:
  mesh:
  exec-db:
    driver_opts: { type: tmpfs, device: tmpfs }
`

// TestR115_AServiceThatCannotBeRestartedIsRefusedAtOnce: the Slot's Revision and the agent's
// reports decide. A valid request is queued once, with its name.
func TestR115_AServiceThatCannotBeRestartedIsRefusedAtOnce(t *testing.T) {
	a, first, _ := newAsked(t)
	ctx := as(t.Context(), operatorToken)
	put(a, t, store.RevisionKey(first), group.RevisionRecord{Digest: first, Group: "pg", Template: group.Template{Compose: restartable}, Number: 1, CreatedAt: time.Now()})
	ask := func(service, id string) error {
		_, err := a.RestartInstance(ctx, &apiv1.RestartInstanceRequest{Slot: "pg-0", Service: service, Reason: "leaks", RequestId: id})
		return err
	}
	refused := func(when, service, want string) {
		t.Helper()
		err := ask(service, "")
		if status.Code(err) != codes.FailedPrecondition || !strings.HasPrefix(message(err), "service: ") || !strings.Contains(message(err), want) || !strings.Contains(message(err), "cadre instance restart pg-0") {
			t.Errorf("%s: %v, want %q", when, err, want)
		}
	}
	agents := a.cfg.Reports.(*reports.Reports)
	refused("no report", "db", "does not report")
	agents.Put("pg-0", "another", &controlv1.Report{Sequence: 1})
	refused("a report of another boot", "db", "does not report")
	agents.Put("pg-0", "boot", &controlv1.Report{Sequence: 1})
	refused("no key", "web", `"web" has no x-cadre key`)
	refused("no such service", "../db", "has no x-cadre key")
	a.mu.Lock()
	a.offset = time.Minute
	a.mu.Unlock()
	refused("a report of a minute ago", "db", "does not report")
	a.mu.Lock()
	a.offset = 0
	a.mu.Unlock()
	if q := a.queue(t); len(q) != 0 {
		t.Fatalf("queued %+v", q)
	}
	for range 2 {
		if err := ask("db", "restart-1"); err != nil {
			t.Fatal(err)
		}
	}
	if q := a.queue(t); len(q) != 1 || q["restart-1"].Service != "db" || q["restart-1"].Kind != store.RequestRestart {
		t.Errorf("queued %+v", q)
	}
	if err := ask("", "restart-1"); status.Code(err) != codes.InvalidArgument {
		t.Errorf("the whole slot under the id: %v", err)
	}
}
