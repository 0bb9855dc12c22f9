package nats

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats.go"

	"cadre.dev/adapters/serve"
	"cadre.dev/core/adapter"
)

// Config names the server that the adapter speaks for.
type Config struct {
	// Slot is the member's name.
	Slot string
	// Monitor is the URL of the server's monitoring port, such as http://127.0.0.1:8222.
	Monitor string
	// Server is the URL of its port for clients, such as nats://127.0.0.1:4222.
	Server string
	// User and PasswordFile log in to the system account. The file is read for each connection.
	User, PasswordFile string
	// Accounts log in to the accounts whose streams a drain moves.
	Accounts []Login
	// CAFile, CertFile and KeyFile are for servers with TLS; empty: plain, or the system's authorities.
	CAFile, CertFile, KeyFile string
	// MaxLag is the number of entries that a replica may be behind and still count as current.
	MaxLag uint64
}

// Login is a user of an account.
type Login struct{ Account, User, PasswordFile string }

// ParseLogin reads "ACCOUNT:USER:PASSWORD_FILE".
func ParseLogin(text string) (Login, error) {
	parts := strings.SplitN(text, ":", 3)
	if len(parts) != 3 || parts[0] == "" || parts[1] == "" || parts[2] == "" {
		return Login{}, fmt.Errorf("%q is not ACCOUNT:USER:PASSWORD_FILE", text)
	}
	return Login{parts[0], parts[1], parts[2]}, nil
}

// Bounds of the adapter's own requests.
const (
	// observeBudget bounds one observation; an agent waits a second.
	observeBudget = 800 * time.Millisecond
	// roundBudget is the part of observeBudget for the answers of all servers.
	roundBudget = 600 * time.Millisecond
	// idle is the time behind the last answer of a server after which the others count as absent.
	idle = 400 * time.Millisecond
	// answersFor bounds one round of questions to all servers, and the age of its answers: servers with
	// hundreds of streams need more than a second.
	answersFor = 5 * time.Second
	// maxAnswer bounds an answer of the monitoring port: a thousand streams need about 1 MiB.
	maxAnswer = 64 << 20
	// liveFor: peers answer the leader every second.
	liveFor = 3500 * time.Millisecond
)

// Adapter is the adapter of one server. All methods are safe for concurrent use.
type Adapter struct {
	cfg    Config
	client *http.Client
	tls    *tls.Config
	names  *names

	mu     sync.Mutex
	shared *nats.Conn // guarded by mu; of the system account

	roundMu sync.Mutex
	round   chan struct{} // guarded by roundMu; closed at the end of the round under way; nil: none is
	last    round         // guarded by roundMu; the last round that ended
}

// round holds the answers of all servers to one question.
type round struct {
	began   time.Time
	servers map[string]jsz
	err     error
}

var _ serve.Workload = (*Adapter)(nil)

// New checks cfg. It contacts no server.
func New(cfg Config) (*Adapter, error) {
	if strings.LastIndexByte(cfg.Slot, '-') < 1 || strings.ContainsAny(cfg.Slot, "_ ") {
		return nil, fmt.Errorf("slot: %q is no name of a slot, such as nats-0", cfg.Slot)
	}
	u, err := url.Parse(cfg.Monitor)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, fmt.Errorf("monitor: %q is no URL such as http://127.0.0.1:8222", cfg.Monitor)
	}
	if u, err := url.Parse(cfg.Server); err != nil || u.Host == "" || u.Scheme != "nats" && u.Scheme != "tls" {
		return nil, fmt.Errorf("server: %q is no URL such as nats://127.0.0.1:4222", cfg.Server)
	}
	if cfg.User == "" || cfg.PasswordFile == "" {
		return nil, errors.New("user and password-file: name a user of the system account and the file with its password")
	}
	if (cfg.CertFile == "") != (cfg.KeyFile == "") {
		return nil, errors.New("cert-file and key-file: give both or none")
	}
	a := &Adapter{cfg: cfg, names: newNames(cfg.Slot)}
	a.cfg.Monitor = strings.TrimSuffix(cfg.Monitor, "/")
	if a.tls, err = tlsOf(cfg); err != nil {
		return nil, err
	}
	a.client = &http.Client{Transport: &http.Transport{TLSClientConfig: a.tls, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute}}
	return a, nil
}

// tlsOf is nil if cfg names no file.
func tlsOf(cfg Config) (*tls.Config, error) {
	if cfg.CAFile == "" && cfg.CertFile == "" {
		return nil, nil
	}
	conf := &tls.Config{MinVersion: tls.VersionTLS12}
	if cfg.CAFile != "" {
		pem, err := os.ReadFile(cfg.CAFile)
		if err != nil {
			return nil, fmt.Errorf("ca-file: %w", err)
		}
		conf.RootCAs = x509.NewCertPool()
		if !conf.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("ca-file: %s holds no certificate", cfg.CAFile)
		}
	}
	if cfg.CertFile != "" {
		// Read for each connection, because certificates are renewed while the adapter runs.
		conf.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cfg.CertFile, cfg.KeyFile)
			if err != nil {
				return nil, fmt.Errorf("cert-file and key-file: %w", err)
			}
			return &pair, nil
		}
	}
	return conf, nil
}

// Member reads this server, and the other servers' answers about the streams that it holds.
func (a *Adapter) Member(ctx context.Context) (adapter.Member, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	return judge(a.cfg.Slot, a.cfg.MaxLag, a.observe(ctx)), nil
}

// seen holds the answers of one observation. Errors are nil where the answer is complete.
type seen struct {
	varz    varz
	varzErr error
	// health is that of all assets of this server.
	health    healthz
	healthErr error
	self      jsz
	selfErr   error
	// id and term of this server in the meta group; "" and 0 where they are not known.
	id   string
	term uint64
	// servers are the answers of all servers, by server name.
	servers    map[string]jsz
	serversErr error
}

func (a *Adapter) observe(ctx context.Context) seen {
	var (
		s  seen
		wg sync.WaitGroup
	)
	wg.Go(func() { s.varzErr = a.get(ctx, "/varz", &s.varz) })
	wg.Go(func() { s.healthErr = a.get(ctx, "/healthz", &s.health) })
	wg.Go(func() { s.selfErr = a.get(ctx, "/jsz", &s.self) })
	wg.Go(func() { s.servers, s.serversErr = a.ask(ctx) })
	wg.Go(func() {
		var groups raftz
		_ = a.get(ctx, "/raftz?group=_meta_", &groups) // a server that has none reports no epoch
		for _, account := range groups {
			s.id, s.term = account["_meta_"].ID, account["_meta_"].Term
		}
	})
	wg.Wait()
	if s.self.Meta != nil {
		a.names.complete(s.self.Meta.Replicas)
	}
	return s
}

// ask returns the answers of all servers. A round that takes longer goes on without the caller, who
// gets the round before if it is young enough.
func (a *Adapter) ask(ctx context.Context) (map[string]jsz, error) {
	a.roundMu.Lock()
	if a.round == nil {
		a.round = make(chan struct{})
		go a.askAll(a.round) //nolint:contextcheck // a round outlasts its first caller
	}
	under := a.round
	a.roundMu.Unlock()
	wait := time.NewTimer(roundBudget)
	defer wait.Stop()
	select {
	case <-under:
	case <-wait.C:
	case <-ctx.Done():
	}
	a.roundMu.Lock()
	defer a.roundMu.Unlock()
	if time.Since(a.last.began) > answersFor {
		return nil, fmt.Errorf("the servers did not answer the system account within %s", answersFor)
	}
	return a.last.servers, a.last.err
}

// askAll makes one round, and closes under at its end. The answers are not changed later.
func (a *Adapter) askAll(under chan struct{}) {
	ctx, cancel := context.WithTimeout(context.Background(), answersFor)
	defer cancel()
	next := round{began: time.Now()}
	next.servers, next.err = a.gather(ctx)
	for _, answer := range next.servers {
		if answer.Meta != nil {
			a.names.complete(answer.Meta.Replicas)
		}
	}
	a.roundMu.Lock()
	defer a.roundMu.Unlock()
	a.last, a.round = next, nil
	close(under)
}

// get reads one page of the monitoring port. /healthz answers 503 with the same kind of body.
func (a *Adapter) get(ctx context.Context, page string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.cfg.Monitor+page, nil)
	if err != nil {
		return fmt.Errorf("get %s: %w", page, err)
	}
	response, err := a.client.Do(r)
	if err != nil {
		return fmt.Errorf("get %s: %w", page, err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return fmt.Errorf("get %s: %w", page, err)
	case len(text) > maxAnswer:
		return fmt.Errorf("get %s: the answer has more than %d bytes", page, maxAnswer)
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("get %s: status %d, and the answer is not the expected JSON", page, response.StatusCode)
	}
	return nil
}

// livenessOf reads the result of the first contact with the server.
func livenessOf(err error) (liveness, message string) {
	switch {
	case err == nil:
		return adapter.Alive, ""
	case errors.Is(err, syscall.ECONNREFUSED):
		return adapter.Refused, "no process listens at the monitoring port"
	case timedOut(err):
		return adapter.Unknown, fmt.Sprintf("the monitoring port gave no answer within %s", observeBudget)
	}
	return adapter.Alive, "the monitoring port: " + err.Error()
}

func timedOut(err error) bool {
	var timeout net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.As(err, &timeout) && timeout.Timeout()
}
