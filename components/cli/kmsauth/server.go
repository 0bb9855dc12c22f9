package kmsauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"cadre.dev/client"
)

// Bounds of the server.
const (
	// askTime bounds a question to the coordinators with its repetitions, and requestTime the whole answer.
	askTime     = 15 * time.Second
	requestTime = 20 * time.Second
	// oneAsk bounds one repetition, so that a coordinator that went away costs one of them; askPause is
	// between two.
	oneAsk   = 5 * time.Second
	askPause = time.Second
	// maxRequests bounds the requests that are read at the same time, since each holds a body in memory.
	// maxAsks bounds the questions to the coordinators. Further requests wait. The two are apart, because
	// members that wait for coordinators must keep no coordinator from its keys.
	maxRequests = 32
	maxAsks     = 32
	maxHeader   = 16 << 10
	// noAddress is the address of a contract that is not there.
	noAddress = "0x0000000000000000000000000000000000000000"
)

// Server answers a key service. All fields are required. Safe for concurrent use.
type Server struct {
	// Static is the path of the File.
	Static string
	// Ask asks the coordinators once. Each of its errors is repeated within 15 s, except a refusal of the
	// question itself (client.Denied, client.Invalid, client.Untrusted); the last error denies.
	Ask func(ctx context.Context, b client.Boot) (client.BootDecision, error)
	Log *slog.Logger
}

// Serve answers on l until ctx ends.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	server := &http.Server{
		Handler: s.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: requestTime, WriteTimeout: 2 * requestTime,
		IdleTimeout: time.Minute, MaxHeaderBytes: maxHeader,
		BaseContext: func(net.Listener) context.Context { return ctx },
	}
	stopped := context.AfterFunc(ctx, func() {
		soon, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		_ = server.Shutdown(soon) // a running request is cancelled with ctx
	})
	defer stopped()
	if err := server.Serve(l); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serve the webhook: %w", err)
	}
	return nil
}

// Handler is the webhook.
func (s *Server) Handler() http.Handler {
	reads, asks := make(turns, maxRequests), make(turns, maxAsks)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.info)
	mux.HandleFunc("POST /bootAuth/app", func(w http.ResponseWriter, r *http.Request) { s.boot(w, r, false, reads, asks) })
	mux.HandleFunc("POST /bootAuth/kms", func(w http.ResponseWriter, r *http.Request) { s.boot(w, r, true, reads, asks) })
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTime)
		defer cancel()
		mux.ServeHTTP(w, r.WithContext(ctx))
	})
}

// turns has room for the work at the same time.
type turns chan struct{}

// take waits for a turn until ctx ends; call done after the work if ok.
func (t turns) take(ctx context.Context) (done func(), ok bool) {
	select {
	case t <- struct{}{}:
		return func() { <-t }, true
	case <-ctx.Done():
		return nil, false
	}
}

// info answers as the other webhooks of dstack do; a key service shows it to its clients.
func (s *Server) info(w http.ResponseWriter, _ *http.Request) {
	f, err := Read(s.Static)
	if err != nil {
		s.Log.Error("the static file cannot be read, so every boot is denied", "error", err)
		s.write(w, http.StatusInternalServerError, map[string]string{"status": "error", "message": err.Error()})
		return
	}
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	implementation := or(f.AppImplementation, noAddress)
	s.write(w, http.StatusOK, map[string]any{
		"status": "ok", "kmsContractAddr": or(f.KMSContractAddr, noAddress), "ethRpcUrl": "", "gatewayAppId": f.GatewayAppID,
		"chainId": f.ChainID, "appAuthImplementation": implementation, "appImplementation": implementation,
	})
}

// boot answers about one boot. A request that cannot be read has status 400, and every decision 200.
func (s *Server) boot(w http.ResponseWriter, r *http.Request, keyService bool, reads, asks turns) {
	done, ok := reads.take(r.Context())
	if !ok {
		s.Log.Error("too many requests at the same time: one is denied without a decision", "path", r.URL.Path)
		s.answer(w, http.StatusServiceUnavailable, Answer{Reason: "kms-auth has too many requests"})
		return
	}
	b, err := read(w, r)
	done()
	if err != nil {
		s.Log.Warn("a request of the key service is not valid", "path", r.URL.Path, "error", err)
		s.answer(w, http.StatusBadRequest, Answer{Reason: "invalid authorization request: " + oneLine(err.Error())})
		return
	}
	a := s.decide(r.Context(), b, keyService, asks)
	log := s.Log.Info
	if !a.IsAllowed {
		log = s.Log.Warn
	}
	what := "boot of an app"
	if keyService {
		what = "boot of a key service"
	}
	log(what, "allowed", a.IsAllowed, "reason", a.Reason, "app", b.AppID, "compose_hash", b.ComposeHash, "instance", b.InstanceID,
		"os_image_hash", b.OSImageHash, "device", b.DeviceID, "mr_aggregated", b.MRAggregated, "tcb_status", b.TCBStatus)
	s.answer(w, http.StatusOK, a)
}

func read(w http.ResponseWriter, r *http.Request) (BootInfo, error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		return BootInfo{}, err
	}
	return parse(body)
}

// decide is the answer about b.
func (s *Server) decide(ctx context.Context, b BootInfo, keyService bool, asks turns) Answer {
	f, err := Read(s.Static)
	if err != nil {
		return Answer{Reason: oneLine(err.Error())}
	}
	a, ask := f.judge(b, keyService)
	if !ask {
		return a
	}
	done, ok := asks.take(ctx)
	if !ok {
		a.Reason = "the coordinators did not decide: kms-auth has too many questions"
		return a
	}
	defer done()
	d, err := s.ask(ctx, client.Boot{AppID: b.AppID, ComposeHash: b.ComposeHash, InstanceID: b.InstanceID, OSImageHash: b.OSImageHash, DeviceID: b.DeviceID})
	switch {
	case err != nil:
		a.Reason = "the coordinators did not decide: " + oneLine(err.Error())
	case !d.Allowed:
		a.Reason = oneLine(d.Code + ": " + d.Message)
	default:
		a.IsAllowed = true
	}
	return a
}

// ask repeats the question, because a denial costs a boot of the guest: the host starts it a few times
// only. A change of the leader or of one coordinator is over within seconds.
func (s *Server) ask(ctx context.Context, b client.Boot) (d client.BootDecision, err error) {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	for {
		one, done := context.WithTimeout(ctx, oneAsk)
		again, failed := s.Ask(one, b)
		done()
		if failed == nil {
			return again, nil
		}
		if ctx.Err() == nil || err == nil {
			err = failed // the question that the end of ctx cuts off says less
		}
		switch client.KindOf(failed) {
		case client.Denied, client.Invalid, client.Untrusted:
			return d, err
		case client.Internal, client.NotFound, client.Conflict, client.Unavailable, client.Timeout:
		}
		if until, _ := ctx.Deadline(); time.Until(until) <= askPause {
			return d, err
		}
		select {
		case <-ctx.Done():
			return d, err
		case <-time.After(askPause):
		}
	}
}

// answer writes a decision. The reason ends in the error of the guest.
func (s *Server) answer(w http.ResponseWriter, status int, a Answer) {
	s.write(w, status, a)
}

func (s *Server) write(w http.ResponseWriter, status int, value any) {
	text, err := json.Marshal(value)
	if err != nil {
		http.Error(w, "encode the answer", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	if _, err := w.Write(text); err != nil {
		s.Log.Debug("the key service went away", "error", err)
	}
}

// oneLine is text without line breaks, at most maxText bytes.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "..."
	}
	return text
}

// Coordinators asks through the context of this name (client.Path), which is read again for each
// question: it may be written after the webhook has started, and its token may be replaced.
func Coordinators(name string, dial client.Options) func(context.Context, client.Boot) (client.BootDecision, error) {
	return func(ctx context.Context, b client.Boot) (client.BootDecision, error) {
		path, err := client.Path(name)
		if err != nil {
			return client.BootDecision{}, err
		}
		known, err := client.LoadContext(path)
		if err != nil {
			return client.BootDecision{}, err
		}
		cl, err := client.Dial(known, dial)
		if err != nil {
			return client.BootDecision{}, err
		}
		defer cl.Close()
		return cl.BootAllowed(ctx, b)
	}
}
