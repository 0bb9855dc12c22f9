package agents

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"

	"cadre.dev/attest"
)

// Evidence is the CVM's present evidence, with its report data.
func (a *Agent) Evidence(ctx context.Context) (ev attest.Evidence, reportData [64]byte, err error) {
	copy(reportData[:], a.BootID)
	ev, err = a.quote(ctx, reportData)
	return ev, reportData, err
}

// quote calls the guest agent, which is in this process and has no socket: a thousand sockets are
// not part of the measurement.
func (a *Agent) quote(ctx context.Context, data [64]byte) (none attest.Evidence, err error) {
	body, err := json.Marshal(map[string]string{"report_data": hex.EncodeToString(data[:])})
	if err != nil {
		return none, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://guest/GetQuote", bytes.NewReader(body))
	if err != nil {
		return none, err
	}
	answer := &recorder{header: http.Header{}, status: http.StatusOK}
	a.guest.Handler().ServeHTTP(answer, request)
	if answer.status != http.StatusOK {
		return none, fmt.Errorf("status %d: %s", answer.status, answer.body.String())
	}
	var reply struct {
		Quote    string `json:"quote"`
		EventLog string `json:"event_log"`
		VMConfig string `json:"vm_config"`
	}
	if err := json.Unmarshal(answer.body.Bytes(), &reply); err != nil {
		return none, err
	}
	raw, err := hex.DecodeString(reply.Quote)
	if err != nil {
		return none, err
	}
	return attest.Evidence{Quote: raw, EventLog: reply.EventLog, AppCompose: a.Slot.AppCompose(), VMConfig: reply.VMConfig}, nil
}

// recorder is an http.ResponseWriter that keeps the written data.
type recorder struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }
