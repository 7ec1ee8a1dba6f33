"""What the sample mails are made of: a grammar for ham and one for spam, in several languages.

A rule is a list of alternatives; `{name}` in one of them is another rule or a generator of
make_samples.py. Newsletters and receipts (ham) sound like offers, and some spam sounds like a friend.
"""

SHARED = {
    "name": ["Anna", "Ben", "Chloe", "Dmitri", "Eva", "Felix", "Greta", "Hugo", "Ines", "Jonas", "Katya", "Luis", "Mira", "Nils",
             "Olga", "Piotr", "Rosa", "Samir", "Tove", "Ulla", "Vera", "Wen", "Yuki", "Zara"],
    "weekday": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "the weekend", "tomorrow", "next week"],
    "thing": ["report", "draft", "patch", "invoice", "agenda", "photos", "tickets", "slides", "budget", "schedule", "minutes", "keys"],
    "project": ["the parser", "the kernel build", "the mailing list archive", "our web server", "the choir", "the garden fence",
                "the school trip", "the translation", "the database migration", "the reading group", "the bike shop"],
    "url": ["http://www.{word}{small}.example/{word}", "https://{word}.example.org/{word}/{big}", "http://{word}-{word}.example.net"],
    "word": ["maple", "orbit", "river", "copper", "delta", "ember", "fjord", "grove", "harbor", "indigo", "jasper", "kite", "lumen",
             "meadow", "nectar", "opal", "prairie", "quartz", "ridge", "summit", "tundra", "velvet", "willow", "zephyr"],
}

HAM = {
    "en": {
        "subject": ["Re: {project}", "{thing} for {weekday}", "Re: Re: {thing}", "lunch on {weekday}?", "[{word}-dev] question about {project}",
                    "minutes of the meeting", "your order {big}", "{word} weekly newsletter", "a question", "Fwd: {thing}", "happy birthday!",
                    "[{word}-users] build fails on my machine", "receipt {big}", "free tickets for the concert?"],
        "greeting": ["Hi {name},", "Dear {name},", "Hello all,", "{name},", "Hey,", "Good morning {name},", ""],
        "sentence": ["Could you send me the {thing} before {weekday}?", "I looked at {project} again and I think {name} was right.",
                     "The build fails with an undefined reference in {word}.c, line {small}, since the last commit.",
                     "Thanks for the {thing}, I will read it tonight.", "We meet at {small} o'clock in the usual place.",
                     "Does anybody know how to turn off the cache without a restart?", "Mum says hello and asks when you will visit.",
                     "I have attached the {thing}; please check the numbers on page {small}.", "On {weekday} {name} wrote: it works for me.",
                     "> I still get the same error with version {small}.{small}.", "> did you try to rebuild the index first?",
                     "Your order {big} has been shipped and should arrive on {weekday}.", "The train was late again, so I missed the start.",
                     "We paid {price} for it, which is more than the budget allows.", "Let me know if {weekday} suits you better.",
                     "This week in the newsletter: an interview, three new articles, and a special offer for members.",
                     "The patch is at {url} and needs one more review.", "I agree with {name} that we should wait for the release.",
                     "You receive this newsletter because you subscribed at {url}.", "If you click on the link below you can change your settings.",
                     "Remember to bring the {thing} and something to drink.", "The doctor said it is nothing serious, so do not worry."],
        "closing": ["Best,\n{name}", "Cheers\n{name}", "Regards,\n{name}", "-- \n{name}\n{url}", "See you,\n{name}", "Thanks!\n{name}", "love, {name}"],
    },
    "de": {
        "subject": ["Re: {project_de}", "Treffen am {tag}", "Frage zur Rechnung", "Fotos vom Ausflug", "Protokoll der Sitzung"],
        "project_de": ["das Gartenfest", "die Übersetzung", "der Chor", "unser Server", "die Klassenfahrt"],
        "tag": ["Montag", "Dienstag", "Mittwoch", "Donnerstag", "Freitag", "Samstag"],
        "greeting": ["Hallo {name},", "Liebe Grüße vorweg, {name}!", "Guten Tag {name},", "Liebe Kollegen,"],
        "sentence": ["könntest du mir bis {tag} die Unterlagen schicken?", "Wir treffen uns um {small} Uhr am üblichen Ort.",
                     "Vielen Dank für die schönen Fotos, wir haben uns sehr darüber gefreut.", "Ich habe {project_de} noch einmal geprüft, {name} hatte recht.",
                     "Die Rechnung über {small} Euro ist bezahlt.", "Der Zug hatte wieder Verspätung, deshalb fehlte ich am Anfang."],
        "closing": ["Viele Grüße\n{name}", "Bis bald\n{name}", "Mit freundlichen Grüßen\n{name}"],
    },
    "fr": {
        "subject": ["Re: la réunion de {jour}", "les photos de l'été", "question sur le projet", "dîner {jour} ?"],
        "jour": ["lundi", "mardi", "mercredi", "jeudi", "vendredi", "samedi"],
        "greeting": ["Bonjour {name},", "Chère {name},", "Salut,"],
        "sentence": ["pourrais-tu m'envoyer le compte rendu avant {jour} ?", "Nous nous retrouvons à {small} heures à l'endroit habituel.",
                     "Merci beaucoup pour les photos, elles sont très réussies.", "J'ai relu le texte et {name} avait raison.",
                     "Le train était encore en retard, désolé d'avoir manqué le début."],
        "closing": ["À bientôt,\n{name}", "Bien à toi,\n{name}", "Cordialement,\n{name}"],
    },
    "ru": {
        "subject": ["Re: встреча в {den}", "вопрос по проекту", "фотографии с дачи"],
        "den": ["понедельник", "вторник", "среду", "четверг", "пятницу"],
        "greeting": ["Привет, {name}!", "Добрый день,", "Здравствуйте, {name},"],
        "sentence": ["Пришли мне, пожалуйста, отчёт до завтрашнего дня.", "Встречаемся в {small} часов на обычном месте, в {den}.",
                     "Спасибо за фотографии, они очень хорошие.", "Я ещё раз посмотрел проект, {name} был прав.", "Поезд опять опоздал, и я пропустил начало."],
        "closing": ["Пока,\n{name}", "С уважением,\n{name}"],
    },
    "ja": {
        "subject": ["会議の件", "Re: 来週の予定", "写真ありがとう"],
        "greeting": ["{name}さん、", "お世話になっております。", "こんにちは。"],
        "sentence": ["来週の会議の資料を送ってください。", "いつもの場所で{small}時に会いましょう。", "写真をありがとうございました。とてもきれいでした。",
                     "電車が遅れて、最初の話を聞けませんでした。", "報告書をもう一度確認しました。"],
        "closing": ["よろしくお願いします。\n{name}", "ではまた。\n{name}"],
    },
    "zh": {
        "subject": ["关于会议", "Re: 下周的安排", "照片"],
        "greeting": ["{name}，你好：", "各位同事：", "你好！"],
        "sentence": ["请在星期五以前把报告发给我。", "我们{small}点在老地方见面。", "谢谢你的照片，拍得很好。", "火车又晚点了，我错过了开头。", "我又看了一遍翻译，没有问题。"],
        "closing": ["祝好\n{name}", "谢谢\n{name}"],
    },
    "el": {
        "subject": ["Η συνάντηση της Δευτέρας", "Re: φωτογραφίες"],
        "greeting": ["Γεια σου {name},", "Καλημέρα σε όλους,"],
        "sentence": ["Στείλε μου σε παρακαλώ την αναφορά πριν από την Παρασκευή.", "Θα βρεθούμε στις {small} στο γνωστό μέρος.", "Ευχαριστώ για τις φωτογραφίες."],
        "closing": ["Φιλικά,\n{name}"],
    },
    "ar": {
        "subject": ["اجتماع الأسبوع القادم", "Re: الصور"],
        "greeting": ["مرحبا {name}،", "صباح الخير،"],
        "sentence": ["من فضلك أرسل لي التقرير قبل يوم الخميس.", "نلتقي في الساعة {small} في المكان المعتاد.", "شكرا على الصور الجميلة."],
        "closing": ["مع التحية\n{name}"],
    },
}

SPAM = {
    "en": {
        "subject": ["{Adj} offer inside", "You have WON {money}!!!", "re: your account", "{name}, lose weight now", "Low mortgage rates {small}.{small}%",
                    "CONGRATULATIONS!!", "work from home, earn {money} a week", "Cheap software {big}", "hi {name}", "urgent business proposal",
                    "Re: your order {big}", "Replica watches from {money}", "final notice: verify your mailbox", "ADV: {adj} toner", "question for you"],
        "adj": ["amazing", "limited", "exclusive", "unbeatable", "special", "free", "risk-free", "once in a lifetime"],
        "Adj": ["AMAZING", "Limited", "EXCLUSIVE", "Unbeatable", "Special", "FREE", "Risk-free"],
        "money": ["${big}", "$ {small},000,000", "{small}000 dollars", "USD {big}", "£{big}"],
        "greeting": ["Dear friend,", "Dear {name},", "Hello!", "ATTENTION:", "Hi {name}", "", "Dear valued customer,"],
        "sentence": ["Click here to claim your {adj} prize of {money} now: {url}", "You have been selected from {big} addresses to receive {money}.",
                     "Act now, this {adj} offer ends on {weekday}!", "No credit check, no obligation, 100% guaranteed.",
                     "Our customers save up to {small}0% on all name brands.", "Lose {small} pounds in {small} days without diet or exercise!!",
                     "I am the son of a late minister and I need your help to transfer {money}.", "Work at home and earn {money} every month, no experience needed.",
                     "Refinance your home today at the lowest rates in {small} years.", "Your mailbox is almost full, verify your password at {url}",
                     "Genuine software at wholesale prices, order on-line and download at once.", "To be removed from this list click here {url}",
                     "This is not spam, you asked to receive special offers from our partners.", "Order {small} bottles and get one FREE!",
                     "Send only {price} and receive the full report by return mail.", "All orders are shipped in plain packing within 24 hours.",
                     "I saw the photos you sent, call me on {weekday} or look at mine: {url}", "Investors who bought at {price} have doubled their money in a week.",
                     "Reply with your bank details so that we can pay you {money}.", "Attached is the invoice {big}; open it to see what you owe."],
        "closing": ["ORDER NOW: {url}", "Click here: {url}", "Yours faithfully,\nDr. {name}", "The {adj} team", "To unsubscribe reply with REMOVE in the subject.",
                    "{gibberish}", "Best,\n{name}", ""],
    },
    "de": {
        "subject": ["Sie haben gewonnen!!!", "Kredit ohne Schufa", "Abnehmen in {small} Tagen", "Ihr Konto wurde gesperrt"],
        "greeting": ["Sehr geehrter Kunde,", "Lieber Freund,", "ACHTUNG!"],
        "sentence": ["Klicken Sie hier, um Ihren Gewinn von {big} Euro abzuholen: {url}", "Sofortkredit ohne Prüfung, garantiert und diskret!",
                     "Verlieren Sie {small} Kilo in {small} Tagen, ohne Diät.", "Verdienen Sie {big} Euro im Monat von zu Hause.", "Nur heute: bis zu {small}0% Rabatt auf alle Marken."],
        "closing": ["JETZT BESTELLEN: {url}", "Ihr Gewinn-Team"],
    },
    "fr": {
        "subject": ["Vous avez gagné !!!", "Offre exclusive", "Crédit immédiat"],
        "greeting": ["Cher client,", "Cher ami,", "ATTENTION !"],
        "sentence": ["Cliquez ici pour recevoir votre prix de {big} euros : {url}", "Crédit immédiat, sans justificatif, garanti à 100% !",
                     "Perdez {small} kilos en {small} jours sans régime.", "Gagnez {big} euros par mois à domicile."],
        "closing": ["COMMANDEZ VITE : {url}", "Pour ne plus recevoir nos offres : {url}"],
    },
    "ru": {
        "subject": ["Вы выиграли приз!!!", "Семинар для бухгалтеров", "Выгодный кредит"],
        "greeting": ["Уважаемые господа!", "ВНИМАНИЕ!"],
        "sentence": ["Нажмите здесь, чтобы получить приз {big} рублей: {url}", "Кредит без справок и поручителей, гарантия 100%!",
                     "Только сегодня скидки до {small}0% на все товары!", "Рассылка рекламы по миллионам адресов, дёшево."],
        "closing": ["Звоните сейчас: {big}", "Заказать: {url}"],
    },
    "ja": {
        "subject": ["未承諾広告※無料プレゼント", "当選おめでとうございます！！", "簡単に稼げる副業"],
        "greeting": ["当選者様へ", "特別なお知らせ！"],
        "sentence": ["今すぐクリックして賞金{big}円を受け取ってください: {url}", "在宅で月{big}円、誰でも簡単に稼げます！", "完全無料、登録はこちら {url}", "本日限り、全商品{small}割引！"],
        "closing": ["今すぐ登録: {url}"],
    },
    "zh": {
        "subject": ["恭喜您中奖了！！", "代开发票", "免费赠送"],
        "greeting": ["尊敬的客户：", "负责人您好！"],
        "sentence": ["请点击这里领取{big}元大奖: {url}", "我公司可代开各种发票，价格优惠，保证真实。", "在家工作，月收入{big}元，无需经验！", "今天特价，全部商品{small}折，免费送货。"],
        "closing": ["立即订购: {url}", "联系电话 {big}"],
    },
    "el": {
        "subject": ["Κερδίσατε!!!", "ΔΩΡΕΑΝ προσφορά"],
        "greeting": ["Αγαπητέ πελάτη,"],
        "sentence": ["Κάντε κλικ εδώ για το έπαθλο των {big} ευρώ: {url}", "Δάνειο χωρίς έλεγχο, 100% εγγυημένο!", "Μόνο σήμερα εκπτώσεις έως {small}0%!"],
        "closing": ["ΠΑΡΑΓΓΕΙΛΤΕ ΤΩΡΑ: {url}"],
    },
    "ar": {
        "subject": ["مبروك لقد ربحت!!!", "عرض خاص مجاني"],
        "greeting": ["عزيزي العميل،"],
        "sentence": ["اضغط هنا لاستلام جائزة {big} دولار: {url}", "قرض فوري بدون ضمانات مضمون 100%!", "اليوم فقط خصم حتى {small}0% على كل المنتجات!"],
        "closing": ["اطلب الآن: {url}"],
    },
}

#: Charsets in which mails of a language really come, the common one first.
CHARSETS = {
    "en": ["us-ascii", "us-ascii", "iso-8859-1", "utf-8", "windows-1252"],
    "de": ["iso-8859-1", "utf-8", "iso-8859-15", "windows-1252"],
    "fr": ["iso-8859-1", "utf-8", "windows-1252"],
    "ru": ["koi8-r", "windows-1251", "utf-8", "iso-8859-5"],
    "ja": ["iso-2022-jp", "shift_jis", "utf-8", "euc-jp"],
    "zh": ["gb2312", "utf-8", "gb18030"],
    "el": ["iso-8859-7", "utf-8", "windows-1253"],
    "ar": ["windows-1256", "utf-8", "iso-8859-6"],
}
