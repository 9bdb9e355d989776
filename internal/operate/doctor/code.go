package doctor

import (
	"slices"

	"github.com/danielgtaylor/huma/v2"
)

// Code is the subject of a finding, for programs. Its values are stable.
type Code string

// The codes. Each belongs to a check.
const (
	NoProblem                   Code = "ok"
	AlertsUnknown               Code = "alerts_unknown"
	AlertsNotEvaluated          Code = "alerts_not_evaluated"
	AlertsClockAhead            Code = "alerts_clock_ahead"
	AlertRuleFailed             Code = "alert_rule_failed"
	AlertReceiverFailed         Code = "alert_receiver_failed"
	BindingsUnknown             Code = "bindings_unknown"
	BindingMissing              Code = "binding_missing"
	ExchangeMissing             Code = "exchange_missing"
	FormerIndexBound            Code = "former_index_bound"
	PluginMissing               Code = "plugin_missing"
	BrokerUnreachable           Code = "broker_unreachable"
	BrokerBlocked               Code = "broker_blocked"
	ClockDiffers                Code = "clock_differs"
	ReloadFailed                Code = "reload_failed"
	DeadLetterExchangeMissing   Code = "dead_letter_exchange_missing"
	DeadLettersAtMostOnce       Code = "dead_letters_at_most_once"
	DelaysUnknown               Code = "delays_unknown"
	DelaysStuck                 Code = "delays_stuck"
	FileUnusable                Code = "file_unusable"
	IndicesUnavailable          Code = "indices_unavailable"
	KeysUnknown                 Code = "keys_unknown"
	KeysUnread                  Code = "keys_unread"
	KeyStands                   Code = "key_stands"
	QueueFull                   Code = "queue_full"
	QueueLong                   Code = "queue_long"
	QueueUnconsumed             Code = "queue_unconsumed"
	LeftoversUnknown            Code = "leftovers_unknown"
	PrefixLeft                  Code = "prefix_left"
	TapLeft                     Code = "tap_left"
	QueueLeft                   Code = "queue_left"
	ManagementUnusable          Code = "management_unusable"
	OrderUnknown                Code = "order_unknown"
	PrioritiesReorder           Code = "priorities_reorder"
	PausesUnknown               Code = "pauses_unknown"
	RoutePaused                 Code = "route_paused"
	PermissionMissing           Code = "permission_missing"
	QuarantineUnknown           Code = "quarantine_unknown"
	EventsInQuarantine          Code = "events_in_quarantine"
	ReturnsUnknown              Code = "returns_unknown"
	ReturnExchangeFormer        Code = "return_exchange_former"
	ReturnExchangeDiverted      Code = "return_exchange_diverted"
	StoreRightsMissing          Code = "store_rights_missing"
	RolesUnknown                Code = "roles_unknown"
	StrangerConsumes            Code = "stranger_consumes"
	PoliciesDiffer              Code = "policies_differ"
	RoleUnattended              Code = "role_unattended"
	RouteSettingIneffective     Code = "route_setting_ineffective"
	QueueDropsByPolicy          Code = "queue_drops_by_policy"
	QueueDropsByArgument        Code = "queue_drops_by_argument"
	RouteArgumentsDiffer        Code = "route_arguments_differ"
	ParkedCopiesDropped         Code = "parked_copies_dropped"
	RouteQueueMissing           Code = "route_queue_missing"
	RouteQueueIsStream          Code = "route_queue_is_stream"
	QueueDropsAfterDeliveries   Code = "queue_drops_after_deliveries"
	DeadLettersGoNowhere        Code = "dead_letters_go_nowhere"
	DeadLettersGoElsewhere      Code = "dead_letters_go_elsewhere"
	RouteUnconsumed             Code = "route_unconsumed"
	FileReadableByAll           Code = "file_readable_by_all"
	SecretInClear               Code = "secret_in_clear"
	DefaultLogin                Code = "default_login"
	ServeNotReady               Code = "serve_not_ready"
	StoreUnreachable            Code = "store_unreachable"
	SubjectKeysUnreadable       Code = "subject_keys_unreadable"
	SubscriptionsUnknown        Code = "subscriptions_unknown"
	SubscriptionMissedEvents    Code = "subscription_missed_events"
	SubscriptionStopped         Code = "subscription_stopped"
	SubscriptionUnattended      Code = "subscription_unattended"
	SubscriptionWaits           Code = "subscription_waits"
	SubscriptionParked          Code = "subscription_parked"
	SubscriptionBehindRetention Code = "subscription_behind_retention"
	TapUnknown                  Code = "tap_unknown"
	TappedExchangeMissing       Code = "tapped_exchange_missing"
	TappedExchangeType          Code = "tapped_exchange_type"
	TapStarvesAlternate         Code = "tap_starves_alternate"
	TapMissing                  Code = "tap_missing"
	RetentionRuleIdle           Code = "retention_rule_idle"
	TemplatesOutdated           Code = "templates_outdated"
	QueueTypeDiffers            Code = "queue_type_differs"
	QueueMissing                Code = "queue_missing"
	QueueDown                   Code = "queue_down"
	QueueLimited                Code = "queue_limited"
	DropsDeadLettered           Code = "drops_dead_lettered"
	DeliveriesTimeOut           Code = "deliveries_time_out"
	ReturnsDelayed              Code = "returns_delayed"
	UnsignedStatesAccepted      Code = "unsigned_states_accepted"
	ForgersUnknown              Code = "forgers_unknown"
	StatesForgeable             Code = "states_forgeable"
	DeathsForgeable             Code = "deaths_forgeable"
	ReportsUnlimited            Code = "reports_unlimited"
	ExchangeNotInternal         Code = "exchange_not_internal"
	BrokerOutdated              Code = "broker_outdated"
	WatermarksUnknown           Code = "watermarks_unknown"
	WatermarkOld                Code = "watermark_old"
	SourceShared                Code = "source_shared"
)

// kind describes a code.
type kind struct {
	code  Code
	check Check
}

// kinds has all codes but NoProblem.
func kinds() []kind {
	return []kind{
		{AlertsUnknown, AlertsCheck},
		{AlertsNotEvaluated, AlertsCheck},
		{AlertsClockAhead, AlertsCheck},
		{AlertRuleFailed, AlertsCheck},
		{AlertReceiverFailed, AlertsCheck},
		{BindingsUnknown, BindingsCheck},
		{BindingMissing, BindingsCheck},
		{ExchangeMissing, BindingsCheck},
		{FormerIndexBound, BindingsCheck},
		{PluginMissing, BindingsCheck},
		{BrokerUnreachable, BrokerCheck},
		{BrokerBlocked, BrokerCheck},
		{ClockDiffers, ClockCheck},
		{ReloadFailed, ConfigurationCheck},
		{DeadLetterExchangeMissing, DeadLettersCheck},
		{DeadLettersAtMostOnce, DeadLettersCheck},
		{DelaysUnknown, DelaysCheck},
		{DelaysStuck, DelaysCheck},
		{FileUnusable, FilesCheck},
		{IndicesUnavailable, IndicesCheck},
		{KeysUnknown, KeysCheck},
		{KeysUnread, KeysCheck},
		{KeyStands, KeysCheck},
		{QueueFull, LagCheck},
		{QueueLong, LagCheck},
		{QueueUnconsumed, LagCheck},
		{LeftoversUnknown, LeftoversCheck},
		{PrefixLeft, LeftoversCheck},
		{TapLeft, LeftoversCheck},
		{QueueLeft, LeftoversCheck},
		{ManagementUnusable, ManagementCheck},
		{OrderUnknown, OrderCheck},
		{PrioritiesReorder, OrderCheck},
		{PausesUnknown, PausedCheck},
		{RoutePaused, PausedCheck},
		{PermissionMissing, PermissionsCheck},
		{QuarantineUnknown, QuarantineCheck},
		{EventsInQuarantine, QuarantineCheck},
		{ReturnsUnknown, ReturnsCheck},
		{ReturnExchangeFormer, ReturnsCheck},
		{ReturnExchangeDiverted, ReturnsCheck},
		{StoreRightsMissing, RightsCheck},
		{RolesUnknown, RolesCheck},
		{StrangerConsumes, RolesCheck},
		{PoliciesDiffer, RolesCheck},
		{RoleUnattended, RolesCheck},
		{RouteSettingIneffective, RoutesCheck},
		{QueueDropsByPolicy, RoutesCheck},
		{QueueDropsByArgument, RoutesCheck},
		{RouteArgumentsDiffer, RoutesCheck},
		{ParkedCopiesDropped, RoutesCheck},
		{RouteQueueMissing, RoutesCheck},
		{RouteQueueIsStream, RoutesCheck},
		{QueueDropsAfterDeliveries, RoutesCheck},
		{DeadLettersGoNowhere, RoutesCheck},
		{DeadLettersGoElsewhere, RoutesCheck},
		{RouteUnconsumed, RoutesCheck},
		{FileReadableByAll, SecretsCheck},
		{SecretInClear, SecretsCheck},
		{DefaultLogin, SecretsCheck},
		{ServeNotReady, ServeCheck},
		{StoreUnreachable, StoreCheck},
		{SubjectKeysUnreadable, StoreCheck},
		{SubscriptionsUnknown, SubscriptionsCheck},
		{SubscriptionMissedEvents, SubscriptionsCheck},
		{SubscriptionStopped, SubscriptionsCheck},
		{SubscriptionUnattended, SubscriptionsCheck},
		{SubscriptionWaits, SubscriptionsCheck},
		{SubscriptionParked, SubscriptionsCheck},
		{SubscriptionBehindRetention, SubscriptionsCheck},
		{TapUnknown, TapCheck},
		{TappedExchangeMissing, TapCheck},
		{TappedExchangeType, TapCheck},
		{TapStarvesAlternate, TapCheck},
		{TapMissing, TapCheck},
		{RetentionRuleIdle, TemplatesCheck},
		{TemplatesOutdated, TemplatesCheck},
		{QueueTypeDiffers, TopologyCheck},
		{QueueMissing, TopologyCheck},
		{QueueDown, TopologyCheck},
		{QueueLimited, TopologyCheck},
		{DropsDeadLettered, TopologyCheck},
		{DeliveriesTimeOut, TopologyCheck},
		{ReturnsDelayed, TopologyCheck},
		{UnsignedStatesAccepted, TrustCheck},
		{ForgersUnknown, TrustCheck},
		{StatesForgeable, TrustCheck},
		{DeathsForgeable, TrustCheck},
		{ReportsUnlimited, TrustCheck},
		{ExchangeNotInternal, TrustCheck},
		{BrokerOutdated, VersionCheck},
		{WatermarksUnknown, WatermarksCheck},
		{WatermarkOld, WatermarksCheck},
		{SourceShared, WatermarksCheck},
	}
}

// Codes returns all codes.
func Codes() []Code {
	codes := []Code{NoProblem}
	for _, k := range kinds() {
		codes = append(codes, k.code)
	}
	return codes
}

// check returns the check of a code.
func (c Code) check() Check {
	for _, k := range kinds() {
		if k.code == c {
			return k.check
		}
	}
	return ""
}

// Schema implements huma.SchemaProvider: the codes are an enum.
func (Code) Schema(huma.Registry) *huma.Schema { return enum(Codes(), "What it is about") }

// Schema implements huma.SchemaProvider: the checks are an enum.
func (Check) Schema(huma.Registry) *huma.Schema {
	var checks []Check
	for _, k := range kinds() {
		if !slices.Contains(checks, k.check) {
			checks = append(checks, k.check)
		}
	}
	return enum(checks, "Subject of the finding")
}

func enum[T ~string](values []T, description string) *huma.Schema {
	all := []any{}
	for _, v := range values {
		all = append(all, string(v))
	}
	return &huma.Schema{Type: huma.TypeString, Enum: all, Description: description}
}
