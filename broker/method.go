package broker

import "fmt"

// methodID identifies a class and a method (§4.2.4).
type methodID uint32

func (m methodID) class() uint16 { return uint16(m >> 16) }
func (m methodID) id() uint16    { return uint16(m) }

const (
	classConnection = 10
	classBasic      = 60
)

const (
	connectionStart          = methodID(classConnection<<16 | 10)
	connectionStartOK        = methodID(classConnection<<16 | 11)
	connectionTune           = methodID(classConnection<<16 | 30)
	connectionTuneOK         = methodID(classConnection<<16 | 31)
	connectionOpen           = methodID(classConnection<<16 | 40)
	connectionOpenOK         = methodID(classConnection<<16 | 41)
	connectionClose          = methodID(classConnection<<16 | 50)
	connectionCloseOK        = methodID(classConnection<<16 | 51)
	connectionBlocked        = methodID(classConnection<<16 | 60)
	connectionUnblocked      = methodID(classConnection<<16 | 61)
	connectionUpdateSecret   = methodID(classConnection<<16 | 70)
	connectionUpdateSecretOK = methodID(classConnection<<16 | 71)

	channelOpen    = methodID(20<<16 | 10)
	channelOpenOK  = methodID(20<<16 | 11)
	channelFlow    = methodID(20<<16 | 20)
	channelFlowOK  = methodID(20<<16 | 21)
	channelClose   = methodID(20<<16 | 40)
	channelCloseOK = methodID(20<<16 | 41)

	accessRequest   = methodID(30<<16 | 10)
	accessRequestOK = methodID(30<<16 | 11)

	exchangeDeclare   = methodID(40<<16 | 10)
	exchangeDeclareOK = methodID(40<<16 | 11)
	exchangeDelete    = methodID(40<<16 | 20)
	exchangeDeleteOK  = methodID(40<<16 | 21)
	exchangeBind      = methodID(40<<16 | 30)
	exchangeBindOK    = methodID(40<<16 | 31)
	exchangeUnbind    = methodID(40<<16 | 40)
	exchangeUnbindOK  = methodID(40<<16 | 51)

	queueDeclare   = methodID(50<<16 | 10)
	queueDeclareOK = methodID(50<<16 | 11)
	queueBind      = methodID(50<<16 | 20)
	queueBindOK    = methodID(50<<16 | 21)
	queuePurge     = methodID(50<<16 | 30)
	queuePurgeOK   = methodID(50<<16 | 31)
	queueDelete    = methodID(50<<16 | 40)
	queueDeleteOK  = methodID(50<<16 | 41)
	queueUnbind    = methodID(50<<16 | 50)
	queueUnbindOK  = methodID(50<<16 | 51)

	basicQos          = methodID(classBasic<<16 | 10)
	basicQosOK        = methodID(classBasic<<16 | 11)
	basicConsume      = methodID(classBasic<<16 | 20)
	basicConsumeOK    = methodID(classBasic<<16 | 21)
	basicCancel       = methodID(classBasic<<16 | 30)
	basicCancelOK     = methodID(classBasic<<16 | 31)
	basicPublish      = methodID(classBasic<<16 | 40)
	basicReturn       = methodID(classBasic<<16 | 50)
	basicDeliver      = methodID(classBasic<<16 | 60)
	basicGet          = methodID(classBasic<<16 | 70)
	basicGetOK        = methodID(classBasic<<16 | 71)
	basicGetEmpty     = methodID(classBasic<<16 | 72)
	basicAck          = methodID(classBasic<<16 | 80)
	basicReject       = methodID(classBasic<<16 | 90)
	basicRecoverAsync = methodID(classBasic<<16 | 100)
	basicRecover      = methodID(classBasic<<16 | 110)
	basicRecoverOK    = methodID(classBasic<<16 | 111)
	basicNack         = methodID(classBasic<<16 | 120)

	confirmSelect   = methodID(85<<16 | 10)
	confirmSelectOK = methodID(85<<16 | 11)

	txSelect     = methodID(90<<16 | 10)
	txSelectOK   = methodID(90<<16 | 11)
	txCommit     = methodID(90<<16 | 20)
	txCommitOK   = methodID(90<<16 | 21)
	txRollback   = methodID(90<<16 | 30)
	txRollbackOK = methodID(90<<16 | 31)
)

// String is for logs.
func (m methodID) String() string { return fmt.Sprintf("%d.%d", m.class(), m.id()) }
