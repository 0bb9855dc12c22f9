package webdemo_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"cadre.dev/demo/webdemo"
)

func db(master, replica string) webdemo.Web {
	return webdemo.Web{Self: webdemo.Hello{Slot: "webdemo-0"}, Master: master, Replica: replica, User: "app", Database: "app"}
}

func TestARowGoesThroughBothRoutes(t *testing.T) {
	leader, follower := &server{slot: "postgres-1"}, &server{slot: "postgres-2", standby: true, late: 2}
	did := look[webdemo.Database](t, db(leader.serve(t), follower.serve(t)), "/db", http.StatusOK)
	if did.Row == nil || did.Row.ID != 17 || did.Row.By != "webdemo-0" || did.Writes10s != 42 || did.Error != "" {
		t.Errorf("%+v", did)
	}
	if m := did.Master; m.Slot != "postgres-1" || m.Address != "127.0.0.1:5432" || m.InRecovery == nil || *m.InRecovery || m.LatencyMS <= 0 || m.Looks != 1 {
		t.Errorf("master %+v", m)
	}
	if r := did.Replica; r.Slot != "postgres-2" || r.InRecovery == nil || !*r.InRecovery || r.LatencyMS <= 0 || r.Looks != 3 {
		t.Errorf("replica %+v", r)
	}
	if !slices.Equal(leader.statements, []string{"CREATE", "INSERT", "SELECT"}) || slices.Contains(follower.statements, "INSERT") {
		t.Errorf("the leader ran %v, the follower %v", leader.statements, follower.statements)
	}
}

// A failure is a 503 that names the route and the reason, with the known data. A failed write is
// not repeated.
func TestADatabaseThatDoesNotAnswer(t *testing.T) {
	gone := refusing(t)
	t.Run("no leader", func(t *testing.T) {
		did := look[webdemo.Database](t, db(gone, gone), "/db", http.StatusServiceUnavailable)
		if did.Row != nil || !strings.HasPrefix(did.Error, gone+": does not answer: ") || !strings.Contains(did.Error, "connection refused") || strings.Contains(did.Error, "user=") {
			t.Errorf("%+v", did)
		}
	})
	t.Run("a leader that is none any more", func(t *testing.T) {
		old := &server{refuses: "INSERT", state: "25006"}
		did := look[webdemo.Database](t, db(old.serve(t), gone), "/db", http.StatusServiceUnavailable)
		if did.Row != nil || !strings.HasSuffix(did.Error, "refused (SQLSTATE 25006)") || !slices.Equal(old.statements, []string{"CREATE", "INSERT"}) {
			t.Errorf("%+v after %v", did, old.statements)
		}
	})
	t.Run("no replica", func(t *testing.T) {
		did := look[webdemo.Database](t, db((&server{slot: "postgres-1"}).serve(t), gone), "/db", http.StatusServiceUnavailable)
		if did.Row == nil || did.Master.Slot != "postgres-1" || !strings.Contains(did.Error, "connection refused") || !strings.HasSuffix(did.Error, "(row 17 is written)") {
			t.Errorf("%+v", did)
		}
	})
	t.Run("a name that is not there yet", func(t *testing.T) {
		w := db("postgres-master.localhost.:5432", gone)
		w.Lookup = unknown
		did := look[webdemo.Database](t, w, "/db", http.StatusServiceUnavailable)
		if !strings.Contains(did.Error, "no such host") {
			t.Errorf("%+v", did)
		}
	})
}

// Two clients make the table at once: one of them gets the error that it exists, and continues.
func TestTheFirstClientMakesTheTable(t *testing.T) {
	leader := &server{slot: "postgres-0", refuses: "CREATE", state: "23505"}
	did := look[webdemo.Database](t, db(leader.serve(t), (&server{standby: true}).serve(t)), "/db", http.StatusOK)
	if did.Row == nil {
		t.Errorf("%+v", did)
	}
}

// A table that is dropped is made again, by the next look.
func TestATableThatIsDroppedIsMadeAgain(t *testing.T) {
	leader := &server{slot: "postgres-0", refuses: "INSERT", state: "42P01"}
	handler := db(leader.serve(t), (&server{standby: true}).serve(t)).Handler()
	for range 2 {
		ask(t, handler, "/db")
	}
	if !slices.Equal(leader.statements, []string{"CREATE", "INSERT", "CREATE", "INSERT"}) {
		t.Errorf("statements %v", leader.statements)
	}
}
