package driver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
)

// etcdAccess is how the client port of any member is reached.
type etcdAccess struct {
	port               uint16
	tls                *tls.Config
	user, passwordFile string
	web                *http.Client
}

// etcdClient talks to exactly one member: a balanced client would ask another one.
type etcdClient struct {
	etcdAccess
	addr netip.Addr

	mu     sync.Mutex
	client *clientv3.Client // guarded by mu; nil until it is open
	denied deniedLogin      // guarded by mu
}

// deniedLogin is the last login that etcd refused. Each costs a member a tenth of a second of work,
// so that the same password is not tried again before until.
type deniedLogin struct {
	password string
	err      error
	until    time.Time
}

const deniedFor = 5 * time.Second

func (a etcdAccess) at(addr netip.Addr) *etcdClient { return &etcdClient{etcdAccess: a, addr: addr} }

func (a etcdAccess) base(addr netip.Addr) string {
	scheme := "http://"
	if a.tls != nil {
		scheme = "https://"
	}
	return scheme + netip.AddrPortFrom(addr, a.port).String()
}

// open returns the client. If a user is set, the first call logs in, with the file's present
// password.
func (c *etcdClient) open() (*clientv3.Client, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		return c.client, nil
	}
	config := clientv3.Config{
		Endpoints: []string{c.base(c.addr)}, TLS: c.tls, DialTimeout: observeBudget, Logger: zap.NewNop(), Username: c.user,
	}
	if c.user != "" {
		password, err := os.ReadFile(c.passwordFile)
		if err != nil {
			return nil, fmt.Errorf("workload setting password_file: %w", err)
		}
		if config.Password = strings.TrimSpace(string(password)); config.Password == "" {
			return nil, fmt.Errorf("workload setting password_file: %s is empty", c.passwordFile)
		}
		if config.Password == c.denied.password && time.Now().Before(c.denied.until) {
			return nil, c.denied.err
		}
	}
	var err error
	if c.client, err = clientv3.New(config); errors.Is(err, rpctypes.ErrAuthFailed) {
		c.denied = deniedLogin{config.Password, err, time.Now().Add(deniedFor)}
	}
	return c.client, err
}

func (c *etcdClient) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.client != nil {
		_ = c.client.Close()
	}
	c.client = nil
}

// statusOf asks the one member that c talks to. clientv3's own Status makes a connection, and logs
// in, for each question.
func statusOf(ctx context.Context, c *clientv3.Client) (*clientv3.StatusResponse, error) {
	status, err := pb.NewMaintenanceClient(c.ActiveConnection()).Status(ctx, &pb.StatusRequest{})
	return (*clientv3.StatusResponse)(status), clientv3.ContextError(ctx, err)
}

// isEtcdAnswer reports that err is an answer of a member.
func isEtcdAnswer(err error) bool {
	var said rpctypes.EtcdError
	return errors.As(err, &said)
}

// refusal is err for people, with the setting that ends it.
func (c *etcdClient) refusal(err error) string {
	const role = "a user that has the role root"
	switch {
	case errors.Is(err, rpctypes.ErrUserEmpty):
		return "it asks for a login: set the workload settings user and password_file to those of " + role + ", or cert_file to a certificate whose common name is one"
	case errors.Is(err, rpctypes.ErrAuthFailed):
		c.close() // the next open reads the password again
		return fmt.Sprintf("it refuses the login of user %q: the workload settings user and password_file must be those of %s", c.user, role)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return "it denies permission: the workload setting user, or the common name of cert_file, must be " + role
	case isTimeout(err):
		return fmt.Sprintf("no answer within %s", observeBudget)
	}
	return err.Error()
}

// tlsHint names the settings to check when a process answers in an unexpected way.
func tlsHint(why string) string {
	return why + ": check the workload settings ca_file, cert_file and key_file"
}

// etcdVersions is the answer of /version, which takes no login.
type etcdVersions struct {
	Server  string `json:"etcdserver"`
	Cluster string `json:"etcdcluster"`
}

func (a etcdAccess) version(ctx context.Context, addr netip.Addr) (v etcdVersions, err error) {
	_, err = getJSON(ctx, a.web, a.base(addr)+"/version", nil, &v)
	return v, err
}

// hintOfVersion is why a member of an older etcd may not start and the way back, where another
// member answers.
func (e *etcd) hintOfVersion(ctx context.Context) string {
	for _, slot := range e.members() {
		addr, known := e.vip(slot)
		if slot == e.self || !known {
			continue
		}
		v, err := e.version(ctx, addr)
		var major, minor int
		if _, parsed := fmt.Sscanf(v.Cluster, "%d.%d", &major, &minor); err != nil || parsed != nil {
			continue
		}
		if major == 3 && minor < 6 {
			return "" // no way back to be named
		}
		return fmt.Sprintf("; an etcd older than %d.%d does not start here, since the members' data is of that version (%s reports it): run `etcdctl downgrade enable %d.%d` before going back",
			major, minor, slot, major, minor-1)
	}
	return ""
}
