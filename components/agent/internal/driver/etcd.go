package driver

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"

	"cadre.dev/core/group"
	"cadre.dev/core/version"
)

// etcd drives an etcd 3.4 to 3.7 member through its own client port. Members are
// named as their Slots.
type etcd struct {
	self string
	vip  func(string) (netip.Addr, bool)
	// slotAt is the inverse of vip.
	slotAt func(netip.Addr) (string, bool)
	// members are the Slots that the group is to have.
	members func() []string
	etcdAccess
	// local is the own member.
	local *etcdClient
}

var _ Driver = (*etcd)(nil)

// etcdProbeKey is read, never written: only the linearizability of the read matters.
const etcdProbeKey = "cadre/probe"

func newEtcd(cfg Config, settings group.SettingValues) (*etcd, error) {
	e := &etcd{self: cfg.Self, vip: cfg.VIP, slotAt: cfg.SlotAt, members: cfg.Members}
	e.port, e.user, e.passwordFile = settings.Port("client_port"), settings["user"], settings["password_file"]
	var err error
	if e.tls, err = clientTLS(settings); err != nil {
		return nil, err
	}
	e.web = newRESTClient(e.tls)
	e.local = e.at(cfg.Local)
	return e, nil
}

func (e *etcd) close() { e.local.close() }

// Observe asks the own endpoint. A linearizable read that it answers proves that
// this member has a leader and has applied everything committed when the read
// began: that is catch-up, read now. First it asks whether the process lives, of a path that takes
// no login.
func (e *etcd) Observe(ctx context.Context) (View, error) {
	ctx, cancel := context.WithTimeout(ctx, observeBudget)
	defer cancel()
	versions, liveErr := e.version(ctx, e.local.addr)
	if errors.Is(liveErr, syscall.ECONNREFUSED) {
		return e.unseen(ctx, liveErr, liveErr), nil // the client would dial again until the budget is spent
	}
	c, err := e.local.open()
	if err != nil {
		return e.unseen(ctx, err, liveErr), nil
	}
	var (
		members          *clientv3.MemberListResponse
		listErr, readErr error
		wg               sync.WaitGroup
	)
	wg.Go(func() { members, listErr = c.MemberList(ctx, clientv3.WithSerializable()) })
	wg.Go(func() { _, readErr = c.Get(ctx, etcdProbeKey, clientv3.WithKeysOnly()) })
	status, err := statusOf(ctx, c)
	wg.Wait()
	if err == nil && isTimeout(listErr) {
		err = listErr // as local as the status
	}
	if err != nil {
		return e.unseen(ctx, err, liveErr), nil
	}
	v := View{Role: RoleUnknown, Liveness: LivenessAlive, Version: status.Version, DataFormat: etcdData(versions.Cluster, status.StorageVersion), Epoch: status.RaftTerm}
	if status.IsLearner && listErr != nil {
		// A learner answers few other requests: the voters report the set's members.
		v.Role, v.CaughtUp = RoleLearner, ptr(false)
		v.Message = "it is a learner: it has no vote yet"
		v.MayDisruptReason = v.Message
		return v, nil
	}
	if listErr != nil {
		v.Message = "etcd's member list is not known: " + e.local.refusal(listErr)
		v.MayDisruptReason = v.Message
		return v, nil
	}
	e.judge(&v, status, members.Members, readErr)
	judgeEtcdErrors(&v, status.Errors)
	return v, nil
}

// etcdData is the version that a server needs to start here: the newer one of the cluster version and
// the storage version, which follows it within seconds. etcd before 3.6 reports no storage version,
// and a new cluster has no version yet.
func etcdData(cluster, storage string) string {
	c, known := version.Parse(cluster)
	if s, ok := version.Parse(storage); ok && (!known || s.Compare(c) > 0) {
		return s.String()
	}
	return c.String()
}

// unseen is the View of a member with an unknown state, after the error err; liveErr is the error
// of the request that checks whether its process lives. A missing answer proves nothing, even if
// the process answered the simpler request: a slow member must not be taken for a broken one.
func (e *etcd) unseen(ctx context.Context, err, liveErr error) View {
	v := View{Role: RoleUnknown}
	v.Liveness, v.Message = livenessOf(liveErr)
	switch {
	case isEtcdAnswer(err):
		v.Liveness, v.Message = LivenessAlive, e.local.refusal(err)
	case v.Liveness == LivenessRefused:
		v.Message += e.hintOfVersion(ctx)
	case v.Liveness == LivenessAlive && v.Message != "":
		v.Message = tlsHint(v.Message)
	case v.Liveness == LivenessAlive && isTimeout(err):
		v.Liveness, v.Message = LivenessUnknown, e.local.refusal(err)+", though the process answers at /version"
	case v.Liveness == LivenessAlive:
		v.Message = e.local.refusal(err)
	}
	v.Message = "etcd: " + v.Message
	v.MayDisruptReason = v.Message
	return v
}

// nameOf is the view's name of a member: its Slot, or its address if the Slot is unknown.
func (e *etcd) nameOf(m *pb.Member) string {
	name, _ := e.slotOf(m)
	return name
}

// judge fills in the member's role in the set. Ids identify this member and the leader: a voter may
// be listed without a name, for example after a promotion under etcd before 3.5.20, and works
// normally.
func (e *etcd) judge(v *View, status *clientv3.StatusResponse, members []*pb.Member, readErr error) {
	own := e.self
	v.MemberIDs = make(map[string]string, len(members))
	for _, m := range members {
		name := e.nameOf(m)
		if m.ID == status.Header.MemberId {
			if m.Name != "" {
				own = m.Name
			}
			name = own
		}
		v.MemberIDs[name] = etcdID(m)
		if m.ID == status.Leader {
			v.Leader = name
		}
		if m.IsLearner {
			v.Learners = append(v.Learners, name)
			v.Busy = append(v.Busy, name+" joins")
		} else {
			v.Voters = append(v.Voters, name)
		}
	}
	slices.Sort(v.Voters)
	slices.Sort(v.Learners)
	v.QuorumMember = slices.Contains(v.Voters, e.self)
	switch {
	case own != e.self:
		v.Message = fmt.Sprintf("the member is named %q; it must be named as the slot, %q", own, e.self)
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
		// Without an answer in time catch-up is unknown; while a leader is known, traffic stays.
		v.CaughtUp, v.Ready = nil, v.Leader != "" && isTimeout(readErr)
		v.Message = "linearizable read: " + e.local.refusal(readErr)
	default:
		v.Ready = true
		v.CaughtUp = ptr(true)
	}
}

// noSpace is the fault of a set whose members refuse writes, with its two cures: the larger quota
// alone ends nothing.
const noSpace = "etcd refuses every write (alarm NOSPACE): give it a larger --quota-backend-bytes or free space, and then run `etcdctl alarm disarm`"

// judgeEtcdErrors decides whether the member may be stopped. etcd reports as errors its alarms and
// a missing leader. NOSPACE forbids nothing: members still vote and answer reads, and another
// revision may be the remedy.
func judgeEtcdErrors(v *View, errs []string) {
	corrupt := ""
	for _, said := range errs {
		if strings.Contains(said, pb.AlarmType_NOSPACE.String()) {
			v.Fault = noSpace
		} else {
			corrupt = said
		}
	}
	switch {
	case v.Role == RoleUnknown:
		v.MayDisruptReason = v.Message
	case v.Leader == "":
		v.MayDisruptReason = "the members have no leader"
	case corrupt != "":
		v.MayDisruptReason = "etcd reports " + strings.TrimSpace(corrupt)
	case len(v.Busy) > 0:
		v.MayDisruptReason = "busy: " + v.Busy[0]
	case !v.Ready: // as where etcd 3.5 and 3.7 give their status to a user whose read they refuse
		v.MayDisruptReason = v.Message
	}
	v.MayDisrupt = v.MayDisruptReason == ""
}

// Drain does nothing: a member without leadership may stop at any moment.
func (e *etcd) Drain(context.Context) error { return nil }

func (e *etcd) CancelDrain(context.Context) error { return nil }
