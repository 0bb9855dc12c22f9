package kafka

import (
	"cmp"
	"errors"
	"fmt"
	"time"

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

// readLevel asks for the finalized level of metadata.version; every node answers.
func readLevel(c *conn) (int16, error) {
	q := kmsg.NewPtrApiVersionsRequest()
	q.ClientSoftwareName, q.ClientSoftwareVersion = "cadre", "1"
	a, err := ask[*kmsg.ApiVersionsResponse](c, q, 3)
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

// readNodes lists brokers or controllers with their addresses; controller is the leader that the node knows.
func readNodes(c *conn, kind int8) (fenced map[int32]bool, addresses map[int32]string, controller int32, err error) {
	q := kmsg.NewPtrDescribeClusterRequest()
	q.EndpointType, q.IncludeFencedBrokers = kind, kind == brokers
	a, err := ask[*kmsg.DescribeClusterResponse](c, q, 2)
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
func readPartitions(c *conn, self int32) ([]partition, error) {
	a, err := ask[*kmsg.MetadataResponse](c, kmsg.NewPtrMetadataRequest(), 12) // all topics
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
	found, err := ask[*kmsg.DescribeConfigsResponse](c, configs, 4)
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
func readMoving(c *conn, self int32) ([]string, error) {
	q := kmsg.NewPtrListPartitionReassignmentsRequest()
	q.TimeoutMillis = 500
	a, err := ask[*kmsg.ListPartitionReassignmentsResponse](c, q, 0)
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
func readQuorum(c *conn) (*quorum, error) {
	q := kmsg.NewPtrDescribeQuorumRequest()
	q.Topics = []kmsg.DescribeQuorumRequestTopic{{Topic: metadataTopic, Partitions: []kmsg.DescribeQuorumRequestTopicPartition{{}}}}
	a, err := ask[*kmsg.DescribeQuorumResponse](c, q, 2)
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
