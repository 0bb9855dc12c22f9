package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// facts are the answers of one look at the cluster.
type facts struct {
	// live is the error of the simplest request to the own process; nil: it answered.
	live error
	// level of metadata.version; 0 is not known.
	level int16
	// nodes are the registered brokers, and whether each is fenced. Nil is not known.
	nodes      map[int32]bool
	nodesErr   error
	partitions []partition
	// partitionsErr: partitions, or the settings of their topics, are not known.
	partitionsErr error
	// moving are partitions under reassignment that this node holds.
	moving    []string
	movingErr error
	quorum    *quorum
	quorumErr error
}

// partition is one with a replica on this node.
type partition struct {
	topic         string
	number        int32
	leader        int32
	replicas, isr []int32
	minISR        int
}

func (p partition) String() string { return fmt.Sprintf("%s-%d", p.topic, p.number) }

// quorum is the set of controllers, as its leader describes it.
type quorum struct {
	leader int32
	epoch  uint64
	// voters, and observers: other nodes that read the log.
	voters, observers []replica
}

// replica is one controller. Times are by the leader's clock; negative is never.
type replica struct {
	node        int32
	directory   string
	fetched, at time.Duration
}

const (
	metadataTopic = "__cluster_metadata"
	brokers       = 1
	controllers   = 2
)

// dial makes a client for the one node at address. It connects at the first request.
func dial(address string) (*kgo.Client, error) {
	return kgo.NewClient(
		kgo.SeedBrokers(address), kgo.ClientID("cadre"), kgo.DisableClientMetrics(),
		kgo.DialTimeout(500*time.Millisecond), kgo.RequestTimeoutOverhead(2*time.Second), kgo.RequestRetries(0),
	)
}

// ask sends one request to the client's node, and returns no other node's answer.
func ask[A kmsg.Response](ctx context.Context, c *kgo.Client, q kmsg.Request) (A, error) {
	var none A
	got, err := c.SeedBrokers()[0].Request(ctx, q)
	if err != nil {
		return none, err
	}
	a, ok := got.(A)
	if !ok {
		return none, fmt.Errorf("an answer of another kind, %T", got)
	}
	return a, nil
}

// refusal is the error of an answer; nil for the code 0.
func refusal(code int16, message *string) error {
	err := kerr.ErrorForCode(code)
	if err == nil || message == nil || *message == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, *message)
}

// readLevel asks for the finalized level of metadata.version; every node answers.
func readLevel(ctx context.Context, c *kgo.Client) (int16, error) {
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "cadre", "1"
	a, err := ask[*kmsg.ApiVersionsResponse](ctx, c, q)
	if err != nil {
		return 0, err
	}
	for _, f := range a.FinalizedFeatures {
		if f.Name == "metadata.version" {
			return f.MaxVersionLevel, nil
		}
	}
	return 0, refusal(a.ErrorCode, nil)
}

// readLive is readLevel whose error tells a process that ended: the client's connections, of an earlier process, do not.
func readLive(ctx context.Context, c *kgo.Client, address string) (int16, error) {
	level, err := readLevel(ctx, c)
	if err == nil || refused(err) {
		return level, err
	}
	conn, dialErr := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if dialErr != nil {
		return 0, dialErr
	}
	_ = conn.Close()
	return 0, err
}

// readNodes lists brokers or controllers with their addresses; controller is the leader that the node knows.
func readNodes(ctx context.Context, c *kgo.Client, kind int8) (fenced map[int32]bool, addresses map[int32]string, controller int32, err error) {
	q := kmsg.NewPtrDescribeClusterRequest()
	q.EndpointType, q.IncludeFencedBrokers = kind, kind == brokers
	a, err := ask[*kmsg.DescribeClusterResponse](ctx, c, q)
	if err == nil {
		err = refusal(a.ErrorCode, a.ErrorMessage)
	}
	if err != nil {
		return nil, nil, -1, err
	}
	fenced, addresses = map[int32]bool{}, map[int32]string{}
	for _, b := range a.Brokers {
		fenced[b.NodeID] = b.IsFenced
		addresses[b.NodeID] = fmt.Sprintf("%s:%d", b.Host, b.Port)
	}
	return fenced, addresses, a.ControllerID, nil
}

// readPartitions lists the partitions with a replica on self.
func readPartitions(ctx context.Context, c *kgo.Client, self int32) ([]partition, error) {
	a, err := ask[*kmsg.MetadataResponse](ctx, c, kmsg.NewPtrMetadataRequest()) // all topics
	if err != nil {
		return nil, err
	}
	var own []partition
	configs := kmsg.NewPtrDescribeConfigsRequest()
	for _, t := range a.Topics {
		if t.Topic == nil || t.ErrorCode != 0 {
			return nil, fmt.Errorf("a topic: %w", cmp.Or(refusal(t.ErrorCode, nil), errors.New("it has no name")))
		}
		before := len(own)
		for _, p := range t.Partitions {
			one := partition{topic: *t.Topic, number: p.Partition, leader: p.Leader, replicas: p.Replicas, isr: p.ISR}
			if one.on(self) {
				own = append(own, one)
			}
		}
		if len(own) > before {
			r := kmsg.NewDescribeConfigsRequestResource()
			r.ResourceType, r.ResourceName, r.ConfigNames = kmsg.ConfigResourceTypeTopic, *t.Topic, []string{minISRName}
			configs.Resources = append(configs.Resources, r)
		}
	}
	if len(own) == 0 {
		return nil, nil
	}
	found, err := ask[*kmsg.DescribeConfigsResponse](ctx, c, configs)
	if err != nil {
		return nil, err
	}
	least, err := minISRs(found)
	if err != nil {
		return nil, err
	}
	for i, p := range own {
		if own[i].minISR = least[p.topic]; own[i].minISR < 1 {
			return nil, fmt.Errorf("%s of topic %s is not known", minISRName, p.topic)
		}
	}
	return own, nil
}

// readMoving lists the partitions on self that are being reassigned.
func readMoving(ctx context.Context, c *kgo.Client, self int32) ([]string, error) {
	q := kmsg.NewPtrListPartitionReassignmentsRequest()
	q.TimeoutMillis = 500
	a, err := ask[*kmsg.ListPartitionReassignmentsResponse](ctx, c, q)
	if err == nil {
		err = refusal(a.ErrorCode, a.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, t := range a.Topics {
		for _, p := range t.Partitions {
			one := partition{topic: t.Topic, number: p.Partition, replicas: p.Replicas}
			if one.on(self) {
				out = append(out, one.String())
			}
		}
	}
	return out, nil
}

// readQuorum asks a broker, which forwards, or the leading controller.
func readQuorum(ctx context.Context, c *kgo.Client) (*quorum, error) {
	q := kmsg.NewPtrDescribeQuorumRequest()
	q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	a, err := ask[*kmsg.DescribeQuorumResponse](ctx, c, q)
	if err == nil {
		err = refusal(a.ErrorCode, a.ErrorMessage)
	}
	if err != nil {
		return nil, err
	}
	if len(a.Topics) != 1 || len(a.Topics[0].Partitions) != 1 {
		return nil, errors.New("the answer describes no log of metadata")
	}
	p := a.Topics[0].Partitions[0]
	if err := refusal(p.ErrorCode, p.ErrorMessage); err != nil {
		return nil, err
	}
	if p.LeaderID < 0 {
		return nil, errors.New("no controller leads")
	}
	return &quorum{leader: p.LeaderID, epoch: uint64(max(p.LeaderEpoch, 0)), voters: replicas(p.CurrentVoters), observers: replicas(p.Observers)}, nil
}

func replicas(all []kmsg.DescribeQuorumResponseTopicPartitionReplicaState) []replica {
	out := make([]replica, 0, len(all))
	for _, r := range all {
		out = append(out, replica{
			node: r.ReplicaID, directory: uuidText(r.ReplicaDirectoryID),
			fetched: time.Duration(r.LastFetchTimestamp) * time.Millisecond, at: time.Duration(r.LastCaughtUpTimestamp) * time.Millisecond,
		})
	}
	return out
}

// refused: no process listens.
func refused(err error) bool { return errors.Is(err, syscall.ECONNREFUSED) }
