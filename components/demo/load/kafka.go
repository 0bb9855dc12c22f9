package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"cadre.dev/demo/load/hosts"
)

const (
	kafkaTopic      = "records"
	kafkaPartitions = 6
	kafkaReplicas   = 3
)

// Kafka is a Target on a Kafka cluster: one idempotent producer, whose records need all in-sync replicas. The records
// of one Conn have one key, go to one partition, and have growing ids.
type Kafka struct {
	run     string
	options []kgo.Opt
	client  *kgo.Client
	conns   atomic.Int64
}

var _ Target = (*Kafka)(nil)

// NewKafka takes the brokers' "host:port" addresses; lookup resolves the hosts, nil is the system's way.
func NewKafka(brokers []string, lookup func(ctx context.Context, host string) ([]string, error)) (*Kafka, error) {
	k := &Kafka{run: strconv.FormatInt(time.Now().UnixNano(), 36)}
	k.options = []kgo.Opt{
		kgo.SeedBrokers(brokers...), kgo.ClientID("cadre-load"), kgo.DisableClientMetrics(), kgo.Dialer(hosts.Dialer(lookup)),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	var err error
	k.client, err = kgo.NewClient(append(k.options,
		kgo.RequiredAcks(kgo.AllISRAcks()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerLinger(0))...)
	return k, err
}

// Close ends all connections.
func (k *Kafka) Close() { k.client.Close() }

// Prepare makes the topic, which needs a broker for each replica.
func (k *Kafka) Prepare(ctx context.Context) error {
	topic := kmsg.NewCreateTopicsRequestTopic()
	topic.Topic, topic.NumPartitions, topic.ReplicationFactor = kafkaTopic, kafkaPartitions, kafkaReplicas
	q := kmsg.NewPtrCreateTopicsRequest()
	q.Topics = append(q.Topics, topic)
	a, err := q.RequestWith(ctx, k.client)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(a.Topics[0].ErrorCode); err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
		return fmt.Errorf("make topic %s: %w", kafkaTopic, err)
	}
	return nil
}

// Connect begins a sequence of records.
func (k *Kafka) Connect(context.Context) (Conn, error) {
	n := k.conns.Add(1)
	return &kafkaConn{client: k.client, key: []byte(k.run + "-" + strconv.FormatInt(n, 10)), partition: int32(n % kafkaPartitions)}, nil
}

type kafkaConn struct {
	client    *kgo.Client
	key       []byte
	partition int32
}

func (c *kafkaConn) Write(ctx context.Context, id int64) (string, error) {
	r := &kgo.Record{Topic: kafkaTopic, Partition: c.partition, Key: c.key, Value: strconv.AppendInt(nil, id, 10)}
	return kafkaTopic, c.client.ProduceSync(ctx, r).FirstErr()
}

func (c *kafkaConn) Healthy() bool         { return true }
func (c *kafkaConn) Close(context.Context) {}

// IDs reads the topic from its start to its present end. A record that is there twice, or behind a later record of
// its Conn, is an error.
func (k *Kafka) IDs(ctx context.Context) (IDs, error) {
	var (
		ids  IDs
		last = map[string]int64{}
		once sync.Once
		bad  error
	)
	ends, err := k.ends(ctx)
	if err != nil {
		return ids, err
	}
	from := map[int32]kgo.Offset{}
	for p, end := range ends {
		if end > 0 {
			from[p] = kgo.NewOffset().AtStart()
		}
	}
	reader, err := kgo.NewClient(append(k.options, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{kafkaTopic: from}))...)
	if err != nil {
		return ids, err
	}
	defer reader.Close()
	for len(from) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := errors.Join(ctx.Err(), fetches.Err()); err != nil {
			return ids, fmt.Errorf("read topic %s: %w", kafkaTopic, err)
		}
		fetches.EachRecord(func(r *kgo.Record) {
			id, err := strconv.ParseInt(string(r.Value), 10, 64)
			if before, more := last[string(r.Key)]; err != nil || more && id <= before {
				once.Do(func() {
					bad = fmt.Errorf("partition %d, offset %d: record %q of %s follows %d", r.Partition, r.Offset, r.Value, r.Key, before)
				})
			}
			last[string(r.Key)] = id
			ids.Add(id)
			if r.Offset+1 >= ends[r.Partition] {
				delete(from, r.Partition)
			}
		})
	}
	return ids, bad
}

// ends are the offsets after the last records, by partition.
func (k *Kafka) ends(ctx context.Context) (map[int32]int64, error) {
	q := kmsg.NewPtrListOffsetsRequest()
	q.ReplicaID = -1
	topic := kmsg.NewListOffsetsRequestTopic()
	topic.Topic = kafkaTopic
	for p := range int32(kafkaPartitions) {
		one := kmsg.NewListOffsetsRequestTopicPartition()
		one.Partition, one.Timestamp = p, -1 // the end
		topic.Partitions = append(topic.Partitions, one)
	}
	q.Topics = append(q.Topics, topic)
	ends := map[int32]int64{}
	for _, shard := range k.client.RequestSharded(ctx, q) {
		if shard.Err != nil {
			return nil, fmt.Errorf("ask for the ends of topic %s: %w", kafkaTopic, shard.Err)
		}
		a, ok := shard.Resp.(*kmsg.ListOffsetsResponse)
		if !ok {
			continue
		}
		for _, t := range a.Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return nil, fmt.Errorf("ask for the end of %s-%d: %w", kafkaTopic, p.Partition, err)
				}
				ends[p.Partition] = p.Offset
			}
		}
	}
	if len(ends) != kafkaPartitions {
		return nil, fmt.Errorf("topic %s: the ends of %d partitions are known, not of %d", kafkaTopic, len(ends), kafkaPartitions)
	}
	return ends, nil
}
