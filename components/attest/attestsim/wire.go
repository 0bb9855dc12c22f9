package attestsim

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// maxRequest is the agent's own limit, in bytes.
const maxRequest = 10 << 20

// hexBytes is how the agent writes bytes: hex without 0x, both ways.
type hexBytes []byte

func (b hexBytes) MarshalText() ([]byte, error) { return []byte(hexOf(b)), nil }

func (b *hexBytes) UnmarshalText(text []byte) error {
	raw, err := hex.DecodeString(string(text))
	if err != nil {
		return fmt.Errorf("invalid hex: %w", err)
	}
	*b = raw
	return nil
}

func hexOf(b []byte) string { return hex.EncodeToString(b) }

// method is one call of the agent.
type method struct {
	// The call exists from release since until the release before until; zero: no bound.
	since, until version
	call         func(g *Guest, request []byte) (any, error)
}

// methods is the table of DstackGuest.
var methods = map[string]method{
	"GetTlsKey": {version{0, 5, 0}, version{}, handle((*Guest).getTLSKey)},
	"GetKey":    {version{0, 5, 0}, version{}, handle((*Guest).getKey)},
	"GetQuote":  {version{0, 5, 0}, version{}, handle((*Guest).getQuote)},
	"EmitEvent": {version{0, 5, 0}, version{0, 6, 0}, handle((*Guest).emitEvent)},
	"Info":      {version{0, 5, 0}, version{}, handle((*Guest).info)},
	"Attest":    {version{0, 5, 6}, version{}, handle((*Guest).attest)},
	"Sign":      {version{0, 5, 6}, version{}, handle((*Guest).sign)},
	"Verify":    {version{0, 5, 6}, version{}, handle((*Guest).verify)},
	"Version":   {version{0, 5, 7}, version{}, handle((*Guest).getVersion)},
	"GpuInfo":   {version{0, 6, 0}, version{}, handle((*Guest).gpuInfo)},
}

func handle[Q, R any](f func(*Guest, Q) (R, error)) func(*Guest, []byte) (any, error) {
	return func(g *Guest, raw []byte) (any, error) {
		var request Q
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &request); err != nil {
				return nil, err
			}
		}
		return f(g, request)
	}
}

func (g *Guest) serve(w http.ResponseWriter, r *http.Request) {
	if g.faults.Latency > 0 {
		timer := time.NewTimer(g.faults.Latency)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return
		}
	}
	m, ok := methods[strings.TrimPrefix(r.URL.Path, "/")]
	dropped := m.until != version{} && g.version.atLeast(m.until[0], m.until[1], m.until[2])
	if !ok || dropped || !g.version.atLeast(m.since[0], m.since[1], m.since[2]) {
		writeError(w, http.StatusNotFound, agentError("Method not found"))
		return
	}
	raw, err := requestBody(r)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	reply, err := m.call(g, raw)
	if err != nil {
		writeError(w, http.StatusBadRequest, err)
		return
	}
	writeJSON(w, http.StatusOK, reply, "")
}

// writeJSON answers with a body of declared length, as the agent does. The Node SDK reads the
// socket directly, knows Content-Length only, and takes a chunked answer for an empty one.
func writeJSON(w http.ResponseWriter, status int, value any, indent string) {
	var body bytes.Buffer
	enc := json.NewEncoder(&body)
	enc.SetIndent("", indent)
	if err := enc.Encode(value); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(body.Len()))
	w.WriteHeader(status)
	// An error means that the caller has closed the connection.
	_, _ = w.Write(body.Bytes())
}

// requestBody is the JSON of a POST, or that of a GET's query.
func requestBody(r *http.Request) ([]byte, error) {
	switch r.Method {
	case http.MethodPost:
		raw, err := io.ReadAll(io.LimitReader(r.Body, maxRequest+1))
		if err == nil && len(raw) > maxRequest {
			err = fmt.Errorf("request is longer than %d bytes", maxRequest)
		}
		return raw, err
	case http.MethodGet:
		return queryJSON(r.URL.Query())
	}
	return nil, fmt.Errorf("method %s is not supported", r.Method)
}

func queryJSON(query url.Values) ([]byte, error) {
	fields := map[string]any{}
	for name, values := range query {
		switch name {
		case "alt_names":
			fields[name] = values
		case "not_before", "not_after":
			n, err := strconv.ParseUint(values[0], 10, 64)
			if err != nil {
				return nil, fmt.Errorf("%s is not a number", name)
			}
			fields[name] = n
		case "usage_ra_tls", "usage_server_auth", "usage_client_auth", "with_app_info":
			fields[name] = values[0] == "true"
		default:
			fields[name] = values[0]
		}
	}
	return json.Marshal(fields)
}

// agentError is an error with the agent's own text.
type agentError string

func (e agentError) Error() string { return string(e) }

// writeError answers as the agent does: pretty JSON with one field.
func writeError(w http.ResponseWriter, status int, err error) {
	writeJSON(w, status, map[string]string{"error": err.Error()}, "  ")
}
