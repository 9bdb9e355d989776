package messages

import (
	"github.com/watershipmq/watership/internal/operation"
	"github.com/watershipmq/watership/internal/system"
	"github.com/watershipmq/watership/pipeline"
)

// operations are the functions of the operations.
type operations struct {
	System   *system.System
	handlers func() pipeline.Config
}

// Implement adds the operations on messages and events to a set. Failures are explained by the
// policies of the handlers.
func Implement(set *operation.Set, sys *system.System, handlers func() pipeline.Config) {
	o := operations{sys, handlers}
	operation.Implement(set, ExplainFailure, o.explain)
	operation.Implement(set, ListMessages, lists{o}.listMessages)
	operation.Implement(set, GetMessages, o.getMessages)
	operation.Implement(set, GetBody, o.getBody)
	operation.Implement(set, GetConversation, o.getConversation)
	operation.Implement(set, CountEvents, o.countEvents)
	operation.Implement(set, CountValues, o.countValues)
	operation.Implement(set, CountOverTime, o.countOverTime)
	operation.Implement(set, ListFields, o.listFields)
	operation.Implement(set, ListTimes, o.listTimes)
	operation.Implement(set, GetServiceMap, serviceMaps{sys}.get)
	operation.Implement(set, ExportEvents, o.exportEvents)
	operation.Implement(set, PublishMessage, o.publishMessage)
	operation.Implement(set, PublishMessages, o.publishMessages)
	operation.Implement(set, SearchEvents, o.searchEvents)
	operation.Implement(set, GetEvent, o.getEvent)
	operation.Implement(set, GetStream, o.getStream)
	operation.Implement(set, TailEvents, o.tailEvents)
	operation.Implement(set, ValidateEvents, o.validateEvents)
	operation.Implement(set, ValidateBody, bodyCheck{sys}.validate)
}
