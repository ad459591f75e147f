// The driver for franz-go; see clients.py for what all drivers do.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const mostFailures = 20

func say(what string, text any) {
	fmt.Println(what, strings.Join(strings.Fields(fmt.Sprint(text)), " "))
}

func main() {
	servers, way, topic, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	if way == "produce" {
		os.Exit(produce(servers, topic))
	}
	os.Exit(consume(servers, topic, group, way == "commit"))
}

func produce(servers, topic string) int {
	client, err := kgo.NewClient(kgo.SeedBrokers(servers), kgo.DefaultProduceTopic(topic), kgo.AllowAutoTopicCreation())
	if err != nil {
		panic(err)
	}
	status := 1
	for _, value := range []string{"one", "two"} {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		err := client.ProduceSync(ctx, kgo.StringRecord(value)).FirstErr()
		cancel()
		if err != nil {
			say("told", err)
			status = 1
			continue
		}
		say("sent", value)
		status = 0
	}
	return status
}

func consume(servers, topic, group string, commits bool) int {
	client, err := kgo.NewClient(
		kgo.SeedBrokers(servers), kgo.ConsumerGroup(group), kgo.ConsumeTopics(topic), kgo.DisableAutoCommit(),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.HeartbeatInterval(500*time.Millisecond), kgo.SessionTimeout(6*time.Second),
	)
	if err != nil {
		panic(err)
	}
	failures := 0
	for {
		fetches := client.PollFetches(context.Background())
		for _, failed := range fetches.Errors() {
			say("told", failed.Err)
			if failures++; failures > mostFailures {
				return 1
			}
		}
		for _, record := range fetches.Records() {
			say("read", string(record.Value))
			if commits {
				if err := client.CommitRecords(context.Background(), record); err != nil {
					say("told", err)
				}
			}
			if string(record.Value) == "last" {
				return 0
			}
		}
	}
}
