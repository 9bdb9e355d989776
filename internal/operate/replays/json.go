package replays

import (
	"github.com/watershipmq/watership/replayer"
	"github.com/watershipmq/watership/replayer/edit"
)

// Target is the destination of a replay.
type Target struct {
	Kind     string  `json:"kind" enum:"origin,failed_queue,queue,exchange" doc:"The original exchange and routing key, only the queue that failed, another queue, or another exchange"`
	Queue    string  `json:"queue,omitempty" maxLength:"255" doc:"Of the kind queue"`
	Exchange string  `json:"exchange,omitempty" maxLength:"255" doc:"Of the kind exchange"`
	Key      *string `json:"routing_key,omitempty" maxLength:"255" nullable:"true" doc:"Of the kind exchange; none: each message keeps its own"`
}

// TargetOf returns the JSON of a target.
func TargetOf(t replayer.Target) Target {
	return Target{string(t.Kind), t.Queue, t.Exchange, t.Key}
}

// Replayer returns the target of a job.
func (t Target) Replayer() replayer.Target {
	return replayer.Target{Kind: replayer.Kind(t.Kind), Queue: t.Queue, Exchange: t.Exchange, Key: t.Key}
}

// Changes are changes of the messages of a replay.
type Changes struct {
	SetHeaders       []string `json:"set_headers,omitempty" maxItems:"100" nullable:"false" doc:"NAME=VALUE, or NAME:TYPE=VALUE with string, int, float, bool or time"`
	RemoveHeaders    []string `json:"remove_headers,omitempty" maxItems:"100" nullable:"false"`
	ClearHeaders     bool     `json:"clear_headers,omitempty" doc:"Remove all headers, except CC and keep_headers"`
	KeepHeaders      []string `json:"keep_headers,omitempty" maxItems:"100" nullable:"false"`
	SetProperties    []string `json:"set_properties,omitempty" maxItems:"100" nullable:"false" doc:"NAME=VALUE"`
	RemoveProperties []string `json:"remove_properties,omitempty" maxItems:"100" nullable:"false"`
	KeepReplyTo      bool     `json:"keep_reply_to,omitempty" doc:"Keep reply_to, so that the clients of requests get another reply"`
}

// ChangesOf returns the JSON of the changes of a job.
func ChangesOf(j replayer.Job) Changes {
	c := j.Changes
	return Changes{
		SetHeaders: c.Set, RemoveHeaders: c.Remove, ClearHeaders: c.Clear, KeepHeaders: c.Keep,
		SetProperties: c.SetProperties, RemoveProperties: c.RemoveProperties, KeepReplyTo: !j.DropReplyTo,
	}
}

// Edits returns the changes of headers and properties.
func (c Changes) Edits() edit.Changes {
	return edit.Changes{
		Clear: c.ClearHeaders || len(c.KeepHeaders) > 0, Keep: c.KeepHeaders, Set: c.SetHeaders, Remove: c.RemoveHeaders,
		SetProperties: c.SetProperties, RemoveProperties: c.RemoveProperties,
	}
}
