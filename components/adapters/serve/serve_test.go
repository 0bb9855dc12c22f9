package serve_test

import (
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

type fake struct{ err error }

func (f fake) Member(context.Context) (adapter.Member, error) {
	return adapter.Member{Role: adapter.RoleLeader, Liveness: adapter.Alive, Leader: "a-0", Message: "joins\n\tnow", MayDisruptReason: "joins"}, f.err
}

func (f fake) Transfer(_ context.Context, r adapter.TransferRequest) (adapter.Transferred, error) {
	return adapter.Transferred{Moved: true, Leader: r.Candidates[0]}, f.err
}
func (f fake) Drain(context.Context) error                         { return f.err }
func (f fake) CancelDrain(context.Context) error                   { return f.err }
func (f fake) ChangeSet(context.Context, adapter.SetRequest) error { return f.err }

// Each call has its status, and a refused request reaches no workload.
func TestAnswers(t *testing.T) {
	busy, unsafe := fmt.Errorf("%w: a transfer runs", serve.ErrBusy), fmt.Errorf("%w: no candidate", serve.ErrUnsafe)
	for _, c := range []struct {
		method, path, body string
		err                error
		status             int
		says               string
	}{
		{"GET", "/v1/member", "", nil, 200, `"leader":"a-0","may_disrupt":false,"may_disrupt_reason":"joins","message":"joins now"`},
		{"POST", "/v1/transfer", `{"expected_leader":"a-0","candidates":["a-1"]}`, nil, 200, `{"moved":true,"leader":"a-1"}`},
		{"POST", "/v1/transfer", `{"expected_leader":"a-0","candidates":["a-1"],"force":true}`, nil, 400, "force"},
		{"POST", "/v1/drain", "{}", nil, 200, "{}"},
		{"DELETE", "/v1/drain", "", nil, 200, "{}"},
		{"POST", "/v1/set", `{"do":"remove","slot":"a-2"}`, busy, 409, "a transfer runs"},
		{"POST", "/v1/drain", "", unsafe, 422, "no candidate"},
		{"POST", "/v1/drain", "", io.ErrUnexpectedEOF, 503, "unexpected EOF"},
		{"POST", "/v1/drain", strings.Repeat(" ", adapter.MaxBody+1), nil, 400, "more than"},
		{"POST", "/v1/transfer", `{"expected_leader":"a-0"}`, nil, 400, "candidates: is empty"},
		{"POST", "/v1/set", `{"do":"kill","slot":"a-2"}`, nil, 400, "use one of add, promote, remove"},
		{"POST", "/v1/set", `{"do":"remove","slot":"a-2"} {}`, nil, 400, "more data"},
		{"PUT", "/v1/member", "", nil, 405, ""},
	} {
		out := httptest.NewRecorder()
		serve.Handler(fake{c.err}).ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), c.method, c.path, strings.NewReader(c.body)))
		if out.Code != c.status || !strings.Contains(out.Body.String(), c.says) {
			t.Errorf("%s %s %.80s: %d %s, want %d with %q", c.method, c.path, c.body, out.Code, out.Body, c.status, c.says)
		}
	}
}

type mistaken struct{ fake }

func (mistaken) Member(context.Context) (adapter.Member, error) {
	return adapter.Member{Role: "boss", Liveness: adapter.Alive, Ready: true, MayDisrupt: true}, nil
}

// A mistake of the adapter is an error of the adapter, with the path of the field.
func TestAMistakeIsNamed(t *testing.T) {
	out := httptest.NewRecorder()
	serve.Handler(mistaken{}).ServeHTTP(out, httptest.NewRequestWithContext(t.Context(), "GET", "/v1/member", nil))
	if out.Code != 503 || !strings.Contains(out.Body.String(), `role: \"boss\" is unknown`) {
		t.Errorf("%d %s", out.Code, out.Body)
	}
}
