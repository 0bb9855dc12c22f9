package control

import (
	"testing"

	"google.golang.org/protobuf/proto"

	controlv1 "cadre.dev/proto/cadre/control/v1"
)

// FuzzReport: each accepted report of an admitted agent fits into records.
func FuzzReport(f *testing.F) {
	good, err := proto.Marshal(&controlv1.Report{
		Sequence: 7, AgentVersion: "v1", Member: &controlv1.MemberView{Leader: "pg-0", Voters: []string{"pg-0", "pg-1"}, Message: "streaming"},
		Checks: []*controlv1.CheckResult{{Name: "ready", Message: "status 503"}}, SecretEpochs: map[string]uint32{"superuser": 2},
	})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > maxMessage {
			return
		}
		var r controlv1.Report
		if proto.Unmarshal(data, &r) != nil || bound(&r) != nil {
			return
		}
		const most = maxText + len("...")
		for _, c := range r.GetChecks() {
			if len(c.GetName()) > maxName || len(c.GetMessage()) > most {
				t.Fatalf("check %q with %d bytes passes", c.GetName(), len(c.GetMessage()))
			}
		}
		for _, s := range r.GetSteps() {
			if len(s.GetOperationId()) > maxName || len(s.GetMessage()) > most {
				t.Fatalf("step %q with %d bytes passes", s.GetOperationId(), len(s.GetMessage()))
			}
		}
		if m := r.GetMember(); len(m.GetMessage()) > most || len(m.GetMayDisruptReason()) > most || len(m.GetVoters()) > maxList {
			t.Fatalf("member %v passes", m)
		}
	})
}
