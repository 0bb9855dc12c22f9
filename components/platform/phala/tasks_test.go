package phala

import (
	"io"
	"net/http"
	"slices"
	"testing"
	"time"

	"cadre.dev/platform"
)

// The server's clock decides which operations began since the call: a clock that is years away from
// the local one changes nothing, and an answer without a date gives none.
func TestTasksByTheServersClock(t *testing.T) {
	const rows = `{"total":4,"next_cursor":null,"items":[
{"correlation_id":"op-3","operation_type":"Compose_Update","target_state":"running","triggered_by":7,"started_at":"2031-02-03T04:05:06Z","status":"in_progress","sub_operations":[],"events":[],"instance_name":"a","compose_hash":"0xAA"},
{"correlation_id":"op-2","operation_type":"power_on","started_at":"2031-02-03T04:05:00.5","status":"failed","error_message":"no\nroom"},
{"correlation_id":"","operation_type":"power_on","started_at":"2031-02-03T04:05:00Z","status":"completed"},
{"correlation_id":"op-1","operation_type":"resize","started_at":"2031-02-03T04:04:00Z","status":"completed"}]}`
	date := "Mon, 03 Feb 2031 04:05:10 GMT"
	status, body := 200, rows
	c := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RequestURI() != "/cvms/cvm_1/operations?limit=20" {
			t.Errorf("asked for %s", r.URL.RequestURI())
		}
		w.Header()["Date"] = []string{date}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	})
	got, err := c.Tasks(t.Context(), "cvm_1", 10*time.Second)
	want := []platform.Task{
		{Correlation: "op-3", Kind: "compose_update", State: platform.TaskInProgress, ComposeHash: "aa"},
		{Correlation: "op-2", Kind: "power_on", State: platform.TaskFailed, Error: "no room"},
	}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("tasks %+v, %v, want %+v", got, err, want)
	}
	date = "yesterday"
	if got, err := c.Tasks(t.Context(), "cvm_1", time.Hour); err != nil || got != nil {
		t.Errorf("without a date: %+v, %v", got, err)
	}
	for _, status = range []int{404, 405} {
		if got, err := c.Tasks(t.Context(), "cvm_1", time.Hour); err != nil || got != nil {
			t.Errorf("%d: %+v, %v, want none", status, got, err)
		}
	}
	status, body = 200, `[]`
	if got, err := c.Tasks(t.Context(), "cvm_1", time.Hour); err == nil {
		t.Errorf("a reply of another form: %+v", got)
	}
}
