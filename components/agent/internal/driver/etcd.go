package driver

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cadre.dev/core/group"
)

// etcd drives an etcd 3.4 to 3.6 member through its own client port. Members are
// named as their Slots.
type etcd struct {
	self  string
	vip   func(string) (netip.Addr, bool)
	port  uint16
	tls   *tls.Config
	local *clientv3.Client
	// slotAt is the inverse of vip.
	slotAt func(netip.Addr) (string, bool)
}

var _ Driver = (*etcd)(nil)

// etcdProbeKey is read, never written: the read's linearizability is what counts.
const etcdProbeKey = "cadre/probe"

func newEtcd(cfg Config, settings group.SettingValues) (*etcd, error) {
	e := &etcd{self: cfg.Self, vip: cfg.VIP, slotAt: cfg.SlotAt, port: settings.Port("client_port")}
	var err error
	if e.tls, err = etcdTLS(settings); err != nil {
		return nil, err
	}
	if e.local, err = e.client(cfg.Local); err != nil {
		return nil, err
	}
	return e, nil
}

// etcdTLS is nil where the settings name no files: all three are there, or none.
func etcdTLS(settings group.SettingValues) (*tls.Config, error) {
	ca, cert, key := settings["ca_file"], settings["cert_file"], settings["key_file"]
	if ca == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(ca)
	if err != nil {
		return nil, fmt.Errorf("workload setting ca_file: %w", err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("workload setting ca_file: %s holds no certificate", ca)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: roots,
		// Loaded per handshake, so that rotation needs no restart.
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			pair, err := tls.LoadX509KeyPair(cert, key)
			return &pair, err
		},
	}, nil
}

// client talks to exactly one member: a balanced client would ask another one.
func (e *etcd) client(at netip.Addr) (*clientv3.Client, error) {
	scheme := "http://"
	if e.tls != nil {
		scheme = "https://"
	}
	c, err := clientv3.New(clientv3.Config{
		Endpoints: []string{scheme + netip.AddrPortFrom(at, e.port).String()},
		TLS:       e.tls, DialTimeout: 300 * time.Millisecond, Logger: zap.NewNop(),
	})
	if err != nil {
		return nil, fmt.Errorf("etcd client: %w", err)
	}
	return c, nil
}

func (e *etcd) close() { _ = e.local.Close() }

// Observe asks the own endpoint. A linearizable read that it answers proves that
// this member has a leader and has applied everything committed when the read
// began: that is catch-up, read now.
func (e *etcd) Observe(ctx context.Context) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	endpoint := e.local.Endpoints()[0]
	var (
		members                    *clientv3.MemberListResponse
		alarms                     *clientv3.AlarmResponse
		listErr, alarmErr, readErr error
		wg                         sync.WaitGroup
	)
	wg.Go(func() { members, listErr = e.local.MemberList(ctx, clientv3.WithSerializable()) })
	wg.Go(func() { alarms, alarmErr = e.local.AlarmList(ctx) })
	wg.Go(func() { _, readErr = e.local.Get(ctx, etcdProbeKey, clientv3.WithKeysOnly()) })
	status, err := e.local.Status(ctx, endpoint)
	wg.Wait()
	if err != nil {
		return View{Role: RoleUnknown, Message: "etcd does not answer: " + err.Error(),
			MayDisruptReason: "etcd does not answer"}, nil
	}
	v := View{Role: RoleUnknown, Liveness: LivenessAlive, Version: status.Version, Epoch: status.RaftTerm}
	if status.IsLearner && listErr != nil {
		// It answers little else: who belongs to the set is told by those who vote.
		v.Role, v.CaughtUp = RoleLearner, ptr(false)
		v.Message = "it is a learner: it has no vote yet"
		v.MayDisruptReason = v.Message
		return v, nil
	}
	if listErr != nil {
		v.Message = "etcd's member list is not known: " + listErr.Error()
		v.MayDisruptReason = v.Message
		return v, nil
	}
	e.judge(&v, status, members.Members, readErr)
	e.judgeDisruption(&v, status, alarms, alarmErr)
	return v, nil
}

func (e *etcd) judge(v *View, status *clientv3.StatusResponse, members []*pb.Member, readErr error) {
	me := ""
	v.MemberIDs = make(map[string]string, len(members))
	for _, m := range members {
		v.MemberIDs[e.nameOf(m)] = etcdID(m)
		if m.ID == status.Header.MemberId {
			me = m.Name
		}
		if m.ID == status.Leader {
			v.Leader = m.Name
		}
		switch {
		case m.IsLearner:
			v.Learners = append(v.Learners, e.nameOf(m))
		default:
			v.Voters = append(v.Voters, e.nameOf(m))
		}
		if m.IsLearner || m.Name == "" {
			v.Busy = append(v.Busy, e.nameOf(m)+" joins")
		}
	}
	slices.Sort(v.Voters)
	slices.Sort(v.Learners)
	v.QuorumMember = slices.Contains(v.Voters, e.self)
	switch {
	case me != e.self:
		v.Message = fmt.Sprintf("the member is named %q; it must be named as the slot, %q", me, e.self)
		return
	case status.IsLearner:
		v.Role = RoleLearner
	case status.Leader != 0 && status.Leader == status.Header.MemberId:
		v.Role = RoleLeader
	default:
		v.Role = RoleFollower
	}
	switch {
	case status.IsLearner: // a learner answers no linearizable reads
		v.CaughtUp = ptr(false)
		v.Message = "learner"
	case readErr != nil:
		v.CaughtUp = nil
		v.Message = "linearizable read: " + readErr.Error()
	default:
		v.Ready = true
		v.CaughtUp = ptr(true)
	}
}

func (e *etcd) judgeDisruption(v *View, status *clientv3.StatusResponse, alarms *clientv3.AlarmResponse, alarmErr error) {
	switch {
	case v.Role == RoleUnknown:
		v.MayDisruptReason = v.Message
	case v.Leader == "":
		v.MayDisruptReason = "the members have no leader"
	case alarmErr != nil:
		v.MayDisruptReason = "alarms are not known: " + alarmErr.Error()
	case len(alarms.Alarms) > 0:
		v.MayDisruptReason = fmt.Sprintf("alarm %s of member %x", alarms.Alarms[0].Alarm, alarms.Alarms[0].MemberID)
	case len(status.Errors) > 0:
		v.MayDisruptReason = "etcd reports " + status.Errors[0]
	case len(v.Busy) > 0:
		v.MayDisruptReason = "busy: " + v.Busy[0]
	}
	v.MayDisrupt = v.MayDisruptReason == ""
}

// Drain has nothing to do: a member without leadership may stop at any moment.
func (e *etcd) Drain(context.Context) error { return nil }

func (e *etcd) CancelDrain(context.Context) error { return nil }

func memberName(m *pb.Member) string {
	if m.Name == "" {
		return etcdID(m)
	}
	return m.Name
}
