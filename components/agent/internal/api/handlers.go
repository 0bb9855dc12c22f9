package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"cadre.dev/agent/internal/lifecycle"
	"cadre.dev/agent/internal/selfreport"
	"cadre.dev/core/group"
)

const (
	// bodyLimit bounds a workload's request.
	bodyLimit = 16 << 10
	// maxWait bounds a long poll.
	maxWait = 5 * time.Minute
)

// Instance is the answer of GET /v1/instance.
type Instance struct {
	Cluster    string            `json:"cluster"`
	Group      string            `json:"group"`
	Slot       string            `json:"slot"`
	VIP        string            `json:"vip"`
	BootID     string            `json:"boot_id"`
	AppID      string            `json:"app_id"`
	InstanceID string            `json:"instance_id"`
	Revision   string            `json:"revision"`
	Members    []string          `json:"members"`
	Meta       map[string]string `json:"meta"`
	Term       uint64            `json:"term"`
	Member     Member            `json:"member"`
	Checks     []Check           `json:"checks"`
	// SecretEpochs by name; never values.
	SecretEpochs map[string]uint32 `json:"secret_epochs"`
}

// Member is the workload's member as the driver sees it.
type Member struct {
	Known            bool   `json:"known"`
	Role             string `json:"role"`
	Ready            bool   `json:"ready"`
	CaughtUp         *bool  `json:"caught_up"`
	LagBytes         *int64 `json:"lag_bytes"`
	Leader           string `json:"leader"`
	Epoch            uint64 `json:"epoch"`
	MayDisrupt       bool   `json:"may_disrupt"`
	MayDisruptReason string `json:"may_disrupt_reason,omitempty"`
	Message          string `json:"message,omitempty"`
}

// Check is one health check.
type Check struct {
	Name    string    `json:"name"`
	Health  string    `json:"health"`
	Message string    `json:"message,omitempty"`
	Since   time.Time `json:"since"`
}

// lifecycleAnswer is Status with the index for the next long poll.
type lifecycleAnswer struct {
	Index uint64 `json:"index"`
	lifecycle.Status
}

type completeRequest struct {
	Result group.HookResult `json:"result"`
	Token  string           `json:"token"`
}

type backendRequest struct {
	Status selfreport.Status `json:"status"`
	Tags   []string          `json:"tags"`
	Output string            `json:"output"`
}

type checkRequest struct {
	Status selfreport.Status `json:"status"`
	Output string            `json:"output"`
}

// wordAnswer reports how long the workload's report holds.
type wordAnswer struct {
	TTLSeconds float64 `json:"ttl_seconds"`
}

type heartbeatRequest struct {
	Token string `json:"token"`
}

// appliedAnswer reports whether the hook was still open for this caller; false is no error (R81).
type appliedAnswer struct {
	Applied bool `json:"applied"`
}

func (s *Server) getInstance(w http.ResponseWriter, _ *http.Request) {
	instance, ok := s.cfg.Instance()
	if !ok {
		writeError(w, http.StatusServiceUnavailable, "NOT_ADMITTED", "this instance is not admitted yet; try again")
		return
	}
	writeJSON(w, http.StatusOK, instance)
}

func (s *Server) getLifecycle(w http.ResponseWriter, req *http.Request) {
	life := s.cfg.Lifecycle()
	if life == nil {
		writeError(w, http.StatusServiceUnavailable, "NOT_ADMITTED", "this instance is not admitted yet; try again")
		return
	}
	wait, index, err := longPoll(req)
	if err != nil {
		writeError(w, http.StatusBadRequest, "QUERY_INVALID", err.Error())
		return
	}
	status, now := life.Status()
	if wait > 0 && now == index {
		ctx, cancel := context.WithTimeout(req.Context(), wait)
		status, now = life.WaitStatus(ctx, index)
		cancel()
	}
	writeJSON(w, http.StatusOK, lifecycleAnswer{Index: now, Status: status})
}

// longPoll reads ?wait=30s&index=N; both or neither.
func longPoll(req *http.Request) (wait time.Duration, index uint64, err error) {
	query := req.URL.Query()
	if text := query.Get("wait"); text != "" {
		if wait, err = time.ParseDuration(text); err != nil || wait < 0 || wait > maxWait {
			return 0, 0, fmt.Errorf("wait: %q is not a duration from 0s to %s", text, maxWait)
		}
	}
	if text := query.Get("index"); text != "" {
		if index, err = strconv.ParseUint(text, 10, 64); err != nil {
			return 0, 0, fmt.Errorf("index: %q is not a number; use the index of the last answer", text)
		}
	}
	return wait, index, nil
}

func (s *Server) completeHook(w http.ResponseWriter, req *http.Request) {
	var body completeRequest
	if !readBody(w, req, &body) {
		return
	}
	switch body.Result {
	case group.HookContinue, group.HookAbandon, group.HookHold:
	default:
		writeError(w, http.StatusBadRequest, "RESULT_INVALID",
			fmt.Sprintf("result: %q is not known; use CONTINUE, ABANDON or HOLD", body.Result))
		return
	}
	s.onHook(w, func(life Lifecycle) (bool, error) {
		return life.Complete(req.PathValue("hook"), body.Token, body.Result)
	})
}

func (s *Server) heartbeatHook(w http.ResponseWriter, req *http.Request) {
	var body heartbeatRequest
	if !readBody(w, req, &body) {
		return
	}
	s.onHook(w, func(life Lifecycle) (bool, error) { return life.Heartbeat(req.PathValue("hook"), body.Token) })
}

func (s *Server) onHook(w http.ResponseWriter, do func(Lifecycle) (bool, error)) {
	life := s.cfg.Lifecycle()
	if life == nil {
		writeError(w, http.StatusServiceUnavailable, "NOT_ADMITTED", "this instance is not admitted yet; try again")
		return
	}
	applied, err := do(life)
	switch {
	case errors.Is(err, lifecycle.ErrNoToken):
		writeError(w, http.StatusBadRequest, "TOKEN_MISSING", "token: "+err.Error()+"; GET /v1/lifecycle has it in the open hook")
	case err != nil:
		writeError(w, http.StatusBadRequest, "RESULT_INVALID", err.Error())
	default:
		writeJSON(w, http.StatusOK, appliedAnswer{Applied: applied})
	}
}

func (s *Server) putBackend(w http.ResponseWriter, req *http.Request) {
	var body backendRequest
	if !readBody(w, req, &body) {
		return
	}
	ttl, err := s.cfg.Backends.Put(req.PathValue("backend"), selfreport.Report(body))
	answerWord(w, ttl, err, "BACKEND_UNKNOWN", `; a backend needs registration { owner = "workload" } in the group's spec, and a route`)
}

func (s *Server) putCheck(w http.ResponseWriter, req *http.Request) {
	var body checkRequest
	if !readBody(w, req, &body) {
		return
	}
	ttl, err := s.cfg.Checks.Put(req.PathValue("check"), selfreport.Report{Status: body.Status, Output: body.Output})
	answerWord(w, ttl, err, "CHECK_UNKNOWN", "; a health_check needs ttl { } in the revision that this boot runs")
}

func answerWord(w http.ResponseWriter, ttl time.Duration, err error, unknown, wayOut string) {
	switch {
	case errors.Is(err, selfreport.ErrUnknown):
		writeError(w, http.StatusNotFound, unknown, err.Error()+wayOut)
	case err != nil:
		writeError(w, http.StatusBadRequest, "BODY_INVALID", err.Error())
	default:
		writeJSON(w, http.StatusOK, wordAnswer{TTLSeconds: ttl.Seconds()})
	}
}

func (s *Server) getHealthz(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

func (s *Server) getReadyz(w http.ResponseWriter, _ *http.Request) {
	if missing := s.cfg.NotReady(); missing != "" {
		writeError(w, http.StatusServiceUnavailable, "NOT_READY", missing)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"status": "ready"})
}

func (s *Server) getMetrics(w http.ResponseWriter, req *http.Request) {
	s.cfg.Metrics.ServeHTTP(w, req)
}

// readBody decodes strictly; an empty body is an empty object.
func readBody(w http.ResponseWriter, req *http.Request, v any) bool {
	data, err := io.ReadAll(http.MaxBytesReader(w, req.Body, bodyLimit))
	var large *http.MaxBytesError
	if errors.As(err, &large) {
		writeError(w, http.StatusRequestEntityTooLarge, "REQUEST_TOO_LARGE", fmt.Sprintf("the body is larger than %d bytes", bodyLimit))
		return false
	}
	if err == nil && len(data) > 0 {
		err = decodeStrict(data, v)
	}
	if err != nil {
		writeError(w, http.StatusBadRequest, "BODY_INVALID", err.Error())
		return false
	}
	return true
}
