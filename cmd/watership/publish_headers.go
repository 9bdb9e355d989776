package main

import (
	"strconv"
	"strings"
	"time"

	amqp091 "github.com/rabbitmq/amqp091-go"
)

// parseHeaders reads NAME=VALUE and NAME:TYPE=VALUE.
func parseHeaders(list []string) (amqp091.Table, error) {
	headers := amqp091.Table{}
	for _, text := range list {
		name, value, found := strings.Cut(text, "=")
		if !found || name == "" {
			return nil, usagef("--header %q: expected NAME=VALUE or NAME:TYPE=VALUE", text)
		}
		typed, err := headerValue(name, value)
		if err != nil {
			return nil, err
		}
		if at := strings.LastIndex(name, ":"); at > 0 {
			name = name[:at]
		}
		headers[name] = typed
	}
	return headers, nil
}

func headerValue(name, value string) (typed any, err error) {
	at := strings.LastIndex(name, ":")
	if at <= 0 {
		return value, nil
	}
	switch kind := name[at+1:]; kind {
	case "int":
		typed, err = strconv.ParseInt(value, 10, 64)
	case "float":
		typed, err = strconv.ParseFloat(value, 64)
	case "bool":
		typed, err = strconv.ParseBool(value)
	case "time":
		typed, err = time.Parse(time.RFC3339, value)
	default:
		return nil, usagef("--header %s: type %q: expected int, float, bool or time", name, kind)
	}
	if err != nil {
		return nil, usagef("--header %s: %q is no %s", name, value, name[at+1:])
	}
	return typed, nil
}
