// The driver for Sarama; see clients.py for what all drivers do.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/IBM/sarama"
)

const mostFailures = 20

func say(what string, text any) {
	fmt.Println(what, strings.Join(strings.Fields(fmt.Sprint(text)), " "))
}

func main() {
	servers, way, topic, group := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	config := sarama.NewConfig()
	config.Version = sarama.V2_8_0_0
	if way == "produce" {
		os.Exit(produce(config, servers, topic))
	}
	os.Exit(consume(config, servers, topic, group, way == "commit"))
}

func produce(config *sarama.Config, servers, topic string) int {
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{servers}, config)
	if err != nil {
		say("told", err)
		if producer, err = sarama.NewSyncProducer([]string{servers}, config); err != nil {
			return 1
		}
	}
	status := 1
	for _, value := range []string{"one", "two"} {
		message := &sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder(value)}
		if _, _, err := producer.SendMessage(message); err != nil {
			say("told", err)
			status = 1
			continue
		}
		say("sent", value)
		status = 0
	}
	return status
}

type reader struct {
	commits bool
	done    chan int
}

func (reader) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (reader) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (r reader) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		say("read", string(message.Value))
		session.MarkMessage(message, "")
		if r.commits {
			session.Commit()
		}
		if string(message.Value) == "last" {
			r.done <- 0
		}
	}
	return nil
}

func consume(config *sarama.Config, servers, topic, group string, commits bool) int {
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Heartbeat.Interval = 500 * time.Millisecond
	config.Consumer.Group.Session.Timeout = 6 * time.Second
	config.Consumer.Return.Errors = true
	r := reader{commits, make(chan int, 1)}
	failures := make(chan error, 100)
	client, err := sarama.NewConsumerGroup([]string{servers}, group, config)
	if err != nil {
		say("told", err)
		if client, err = sarama.NewConsumerGroup([]string{servers}, group, config); err != nil {
			return 1
		}
	}
	go func() {
		for err := range client.Errors() {
			say("told", err)
		}
	}()
	go func() {
		for {
			if err := client.Consume(context.Background(), []string{topic}, r); err != nil {
				failures <- err
				time.Sleep(200 * time.Millisecond)
			}
		}
	}()
	for told := 0; told <= mostFailures; {
		select {
		case status := <-r.done:
			return status
		case err := <-failures:
			say("told", err)
			told++
		}
	}
	return 1
}
