package load

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cadre.dev/demo/load/hosts"
)

// Etcd is a RegisterStore on an etcd cluster. It has one client for each member:
// a balanced one would hide which member answered.
type Etcd struct {
	names   []string
	clients []*clientv3.Client
	prefix  string
}

var _ RegisterStore = (*Etcd)(nil)

// NewEtcd takes the members' "host:port" addresses; lookup resolves the hosts,
// nil is the system's way. The registers lie below a prefix that run names, so
// that each run starts with registers that were never written.
func NewEtcd(members []string, run string, lookup func(ctx context.Context, host string) ([]string, error)) (*Etcd, error) {
	e := &Etcd{prefix: "cadre-load/" + run + "/"}
	dial := hosts.Dialer(lookup)
	if len(members) == 0 {
		return nil, errors.New("no member is named: give host:port of each")
	}
	for _, address := range members {
		host, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("member %q: give host:port", address), e.Close())
		}
		client, err := clientv3.New(clientv3.Config{
			Endpoints: []string{"http://" + address}, Logger: zap.NewNop(),
			DialOptions: []grpc.DialOption{
				grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) { return dial(ctx, "tcp", address) }),
				// A member is away for seconds at most; the default grows to two minutes.
				grpc.WithConnectParams(grpc.ConnectParams{
					Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.5, Jitter: 0.2, MaxDelay: time.Second},
					MinConnectTimeout: 500 * time.Millisecond,
				}),
			},
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("member %q: %w", address, err), e.Close())
		}
		e.names, e.clients = append(e.names, host), append(e.clients, client)
	}
	return e, nil
}

// Close ends all connections.
func (e *Etcd) Close() error {
	var errs []error
	for _, c := range e.clients {
		errs = append(errs, c.Close())
	}
	return errors.Join(errs...)
}

// Ready returns nil once a member answers a linearizable read: there is a leader.
func (e *Etcd) Ready(ctx context.Context) error {
	var errs []error
	for i, c := range e.clients {
		asking, cancel := context.WithTimeout(ctx, time.Second)
		_, err := c.Get(asking, e.prefix)
		cancel()
		if err == nil {
			return nil
		}
		errs = append(errs, fmt.Errorf("member %s: %w", e.names[i], err))
	}
	return errors.Join(errs...)
}

// Members implements RegisterStore.
func (e *Etcd) Members() []string { return e.names }

// Do implements RegisterStore.
func (e *Etcd) Do(ctx context.Context, member int, op RegisterOp) (RegisterAnswer, error) {
	answer, err := e.do(ctx, member, op)
	if err != nil {
		return RegisterAnswer{}, &etcdError{err}
	}
	return answer, nil
}

func (e *Etcd) do(ctx context.Context, member int, op RegisterOp) (RegisterAnswer, error) {
	client, key := e.clients[member], e.register(op.Key)
	if op.Kind == RegisterRead {
		resp, err := client.Get(ctx, key)
		if err != nil {
			return RegisterAnswer{}, err
		}
		value, err := registerValue(resp)
		return RegisterAnswer{Value: value, Term: resp.Header.RaftTerm}, err
	}
	txn := client.Txn(ctx)
	if op.Kind == RegisterSwap {
		txn = txn.If(holds(key, op.Expect))
	}
	resp, err := txn.Then(
		clientv3.OpPut(key, strconv.FormatInt(op.ID, 10)),
		clientv3.OpPut(e.ids()+strconv.FormatInt(op.ID, 10), ""),
	).Else(clientv3.OpGet(key)).Commit()
	if err != nil {
		return RegisterAnswer{}, err
	}
	answer := RegisterAnswer{Swapped: op.Kind == RegisterSwap && resp.Succeeded, Term: resp.Header.RaftTerm}
	if !resp.Succeeded {
		answer.Value, err = registerValue((*clientv3.GetResponse)(resp.Responses[0].GetResponseRange()))
	}
	return answer, err
}

// holds compares a register with a value; 0 is a key that does not exist.
func holds(key string, value int64) clientv3.Cmp {
	if value == 0 {
		return clientv3.Compare(clientv3.CreateRevision(key), "=", 0)
	}
	return clientv3.Compare(clientv3.Value(key), "=", strconv.FormatInt(value, 10))
}

func registerValue(resp *clientv3.GetResponse) (int64, error) {
	if len(resp.Kvs) == 0 {
		return 0, nil
	}
	value, err := strconv.ParseInt(string(resp.Kvs[0].Value), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("a register holds what no client wrote: %w", err)
	}
	return value, nil
}

// IDs implements RegisterStore.
func (e *Etcd) IDs(ctx context.Context) (map[int64]bool, error) {
	var errs []error
	for i, client := range e.clients {
		resp, err := client.Get(ctx, e.ids(), clientv3.WithPrefix(), clientv3.WithKeysOnly())
		if err != nil {
			errs = append(errs, fmt.Errorf("member %s: %w", e.names[i], err))
			continue
		}
		ids := make(map[int64]bool, len(resp.Kvs))
		for _, kv := range resp.Kvs {
			id, err := strconv.ParseInt(strings.TrimPrefix(string(kv.Key), e.ids()), 10, 64)
			if err != nil {
				return nil, fmt.Errorf("read the written ids: %w", err)
			}
			ids[id] = true
		}
		return ids, nil
	}
	return nil, fmt.Errorf("read the written ids: %w", errors.Join(errs...))
}

// Leader implements RegisterStore. An etcd member that has won an election reports at once that it
// leads, with the term of the last entry that it applied, which is still its predecessor's. A
// linearizable read makes it apply its own first.
func (e *Etcd) Leader(ctx context.Context, member int) (term uint64, leads bool, err error) {
	client := e.clients[member]
	term, leads, err = leadership(ctx, client)
	if err != nil || !leads {
		return term, false, err
	}
	if _, err := client.Get(ctx, e.prefix, clientv3.WithCountOnly()); err != nil {
		return 0, false, err
	}
	return leadership(ctx, client)
}

// leadership is the member's own report.
func leadership(ctx context.Context, client *clientv3.Client) (term uint64, leads bool, err error) {
	said, err := client.Status(ctx, client.Endpoints()[0])
	if err != nil {
		return 0, false, err
	}
	return said.RaftTerm, said.Leader == said.Header.MemberId, nil
}

// etcdError counts as its gRPC code: the texts name addresses and attempts.
type etcdError struct{ error }

func (e *etcdError) Unwrap() error { return e.error }

// Class is how the error is counted.
func (e *etcdError) Class() string {
	var told rpctypes.EtcdError
	if errors.As(e.error, &told) {
		return told.Error()
	}
	said, spoken := status.FromError(e.error)
	switch {
	case !spoken:
		return errorClass(e.error)
	case said.Code() == codes.DeadlineExceeded:
		return errorClass(context.DeadlineExceeded)
	case said.Code() == codes.Unknown:
		return errorClass(errors.New(said.Message()))
	default:
		return said.Code().String()
	}
}

func (e *Etcd) register(key int) string { return e.prefix + "register/" + strconv.Itoa(key) }

func (e *Etcd) ids() string { return e.prefix + "ids/" }
